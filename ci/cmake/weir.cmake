# SPDX-License-Identifier: Apache-2.0
#
# weir_room(NAME [SOURCES ...] [GENERATED ...] [LIBS ...])   a static library; see below
# weir_program(TARGET ROOM NAME)                             main.c of a room, linked with the room
# weir_test(NAME ROOMS ... [SOURCES ...] [LABEL unit] ...)   cmocka programs
# weir_script_test(NAME COMMAND ... [LABEL e2e] ...)         any other test
# weir_fuzz(NAME ROOMS ... SOURCES ...)                      a fuzz target, or its replay program
#
# A room sees other rooms through an include folder in the build tree that holds links to its allowed rooms only:
# BUILD/rooms/NAME/src for what stands in the source tree, BUILD/rooms/NAME/gen for what is generated.

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
find_program(WEIR_CCACHE ccache)
if(WEIR_CCACHE AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${WEIR_CCACHE}")
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

set(WEIR_RULES_TOOL "${CMAKE_SOURCE_DIR}/ci/rules")
set(WEIR_ROOMS_FILE "${CMAKE_SOURCE_DIR}/ci/rooms.txt")
set(WEIR_GEN_ROOT "${CMAKE_BINARY_DIR}/gen")

add_compile_options(
  -Wall -Wextra -Wconversion -Wshadow -Wswitch-enum -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
  -Wundef -Wvla -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough -Wformat=2 -fno-common -fno-strict-aliasing
  -fvisibility=hidden)
if(NOT WEIR_COVERAGE) # the report looks for its sources by their full path
  add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
endif()
if(WEIR_WERROR)
  add_compile_options(-Werror)
endif()
if(WEIR_SANITIZE)
  add_compile_options("-fsanitize=${WEIR_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${WEIR_SANITIZE}")
endif()
if(WEIR_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()
if(WEIR_FUZZER)
  add_compile_options("-fsanitize=fuzzer-no-link")
endif()

# ---- rooms.txt ----------------------------------------------------------------------------------------------------

set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${WEIR_ROOMS_FILE}")
set(WEIR_ROOMS "")
file(STRINGS "${WEIR_ROOMS_FILE}" weir_lines REGEX "^[a-z]")
foreach(line IN LISTS weir_lines)
  if(NOT line MATCHES "^([a-z0-9_/]+):(.*)$")
    message(FATAL_ERROR "ci/rooms.txt: not 'room: rooms': ${line}")
  endif()
  set(room "${CMAKE_MATCH_1}")
  string(STRIP "${CMAKE_MATCH_2}" uses)
  string(REGEX REPLACE "[ \t]+" ";" uses "${uses}")
  foreach(use IN LISTS uses)
    if(NOT use IN_LIST WEIR_ROOMS)
      message(FATAL_ERROR "ci/rooms.txt: ${room} uses ${use}, which is not listed above it")
    endif()
  endforeach()
  list(APPEND WEIR_ROOMS "${room}")
  set("WEIR_USES_${room}" "${uses}")
endforeach()

# The folder of a room in the source tree.
function(weir_room_dir room out)
  if(room STREQUAL "codec")
    set(dir "src/codec")
  elseif(room MATCHES "^host/")
    set(dir "src/${room}")
  elseif(room MATCHES "^sim(/|$)")
    set(dir "${room}")
  else()
    set(dir "src/core/${room}")
  endif()
  set(${out} "${CMAKE_SOURCE_DIR}/${dir}" PARENT_SCOPE)
endfunction()

# The library target of a room: core_plog, core_wire_kafka, codec, host_uv, sim_world, sim_main.
function(weir_room_target room out)
  string(REPLACE "/" "_" name "${room}")
  if(room STREQUAL "codec" OR room MATCHES "^(host|sim)/")
    set(${out} "${name}" PARENT_SCOPE)
  elseif(room STREQUAL "sim")
    set(${out} "sim_main" PARENT_SCOPE)
  else()
    set(${out} "core_${name}" PARENT_SCOPE)
  endif()
endfunction()

# Where generated sources of a room go: BUILD/gen/ROOM.
function(weir_gen_dir room out)
  set(${out} "${WEIR_GEN_ROOT}/${room}" PARENT_SCOPE)
endfunction()

# All rooms that the given rooms may use, directly or not, themselves included.
function(weir_rooms_closure out)
  set(todo ${ARGN})
  set(done "")
  while(todo)
    list(POP_FRONT todo room)
    if(NOT room IN_LIST WEIR_ROOMS)
      message(FATAL_ERROR "${room} is not in ci/rooms.txt")
    endif()
    if(NOT room IN_LIST done)
      list(APPEND done "${room}")
      list(APPEND todo ${WEIR_USES_${room}})
    endif()
  endwhile()
  set(${out} "${done}" PARENT_SCOPE)
endfunction()

# An include folder that holds the given rooms and nothing else; made anew at each configure.
function(weir_include_folder folder)
  file(REMOVE_RECURSE "${folder}")
  foreach(room IN LISTS ARGN)
    if(room STREQUAL "sim")
      continue() # its folder holds other rooms; its own headers are included from beside
    endif()
    weir_room_dir("${room}" dir)
    foreach(pair "src;${dir}" "gen;${WEIR_GEN_ROOT}/${room}")
      list(GET pair 0 kind)
      list(GET pair 1 from)
      get_filename_component(parent "${folder}/${kind}/${room}" DIRECTORY)
      file(MAKE_DIRECTORY "${parent}" "${WEIR_GEN_ROOT}/${room}")
      file(CREATE_LINK "${from}" "${folder}/${kind}/${room}" SYMBOLIC)
    endforeach()
  endforeach()
endfunction()

function(weir_use_include_folder target folder)
  target_include_directories(${target} PRIVATE "${folder}/src" "${folder}/gen")
  if(WEIR_COVERAGE)
    return()
  endif()
  target_compile_options(${target} PRIVATE
    "-fmacro-prefix-map=${folder}/src/=" "-fmacro-prefix-map=${folder}/gen/=" "-fmacro-prefix-map=${WEIR_GEN_ROOT}/=")
endfunction()

# Folders for "x.h" only: a room may have a header called like one of the system (uv.h).
function(weir__quote_folders target)
  foreach(folder IN LISTS ARGN)
    target_compile_options(${target} PRIVATE "SHELL:-iquote ${folder}")
  endforeach()
endfunction()

# ---- rooms --------------------------------------------------------------------------------------------------------

# weir_room(NAME [SOURCES ...] [GENERATED ...] [LIBS ...])
#
# SOURCES    default: every *.c of the folder except main.c, looked at again at each build.
# GENERATED  files that the same CMakeLists.txt has written to weir_gen_dir(NAME) while the build is configured, headers too.
# LIBS       foreign libraries by name (uv, lz4); only codec and host may have them. Searched when there are sources.
function(weir_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;GENERATED;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weir_room(${room}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT room IN_LIST WEIR_ROOMS)
    message(FATAL_ERROR "weir_room(${room}): not in ci/rooms.txt")
  endif()
  weir_room_target("${room}" target)
  weir_room_dir("${room}" dir)
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "${dir}/*.c")
    list(REMOVE_ITEM arg_SOURCES "${dir}/main.c")
  endif()
  file(GLOB headers CONFIGURE_DEPENDS "${dir}/*.h")
  file(GLOB sources_c CONFIGURE_DEPENDS "${dir}/*.c")

  set(folder "${CMAKE_BINARY_DIR}/rooms/${target}")
  weir_include_folder("${folder}" "${room}" ${WEIR_USES_${room}})

  set(use_targets "")
  foreach(use IN LISTS WEIR_USES_${room})
    weir_room_target("${use}" use_target)
    if(TARGET ${use_target})
      list(APPEND use_targets ${use_target})
    endif()
  endforeach()

  set(is_core TRUE)
  if(room MATCHES "^(host/|sim(/|$))")
    set(is_core FALSE)
  endif()

  set(generated_c ${arg_GENERATED})
  list(FILTER generated_c INCLUDE REGEX "\\.c$")
  if(NOT arg_SOURCES AND NOT generated_c)
    add_library(${target} INTERFACE) # only headers, so far
    target_link_libraries(${target} INTERFACE ${use_targets})
    set(archive_args "")
    set(archive_dep "")
  else()
    add_library(${target} STATIC ${arg_SOURCES} ${arg_GENERATED})
    target_link_libraries(${target} PUBLIC ${use_targets})
    weir_use_include_folder(${target} "${folder}")
    set(lib_files "")
    foreach(lib IN LISTS arg_LIBS)
      find_library(WEIR_LIB_${lib} "${lib}" REQUIRED)
      list(APPEND lib_files "${WEIR_LIB_${lib}}")
    endforeach()
    target_link_libraries(${target} PUBLIC ${lib_files})
    if(is_core)
      if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        target_compile_options(${target} PRIVATE -fno-builtin-bcmp) # the core may call memcmp, never bcmp
      endif()
    else()
      target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    endif()
    set(archive_args --archive "$<TARGET_FILE:${target}>" --cc "${CMAKE_C_COMPILER}" --work "${folder}")
    foreach(lib IN LISTS lib_files)
      list(APPEND archive_args --lib "${lib}")
    endforeach()
    set(archive_dep ${target} "$<TARGET_FILE:${target}>")
    weir_rooms_closure(closure ${room})
    foreach(use IN LISTS closure)
      weir_room_target("${use}" use_target)
      if(NOT use STREQUAL room AND TARGET ${use_target})
        get_target_property(type ${use_target} TYPE)
        if(type STREQUAL "STATIC_LIBRARY")
          list(APPEND archive_args --with "${use}=$<TARGET_FILE:${use_target}>")
          list(APPEND archive_dep ${use_target})
        endif()
      endif()
    endforeach()
  endif()

  if(WEIR_RULES)
    set(stamp "${folder}/rules.stamp")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND "${Python3_EXECUTABLE}" -B "${WEIR_RULES_TOOL}" --room "${room}" --gen "${WEIR_GEN_ROOT}/${room}"
        ${archive_args} --stamp "${stamp}"
      DEPENDS ${archive_dep} ${headers} ${sources_c} ${arg_GENERATED} "${WEIR_RULES_TOOL}" "${WEIR_ROOMS_FILE}"
      COMMENT "Rules of room ${room}"
      VERBATIM)
    add_custom_target(rules_${target} ALL DEPENDS "${stamp}")
  endif()
endfunction()

# weir_program(TARGET ROOM NAME): BUILD/TARGET from the room's main.c; skipped until that file exists, and in a build of fuzzers.
function(weir_program program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ROOM" "")
  weir_room_dir("${arg_ROOM}" dir)
  weir_room_target("${arg_ROOM}" target)
  file(GLOB main CONFIGURE_DEPENDS "${dir}/main.c")
  if(NOT main OR WEIR_FUZZER)
    return()
  endif()
  add_executable(${program} "${main}")
  target_compile_definitions(${program} PRIVATE _GNU_SOURCE "WEIR_VERSION=\"${PROJECT_VERSION}\"")
  weir_use_include_folder(${program} "${CMAKE_BINARY_DIR}/rooms/${target}")
  target_link_libraries(${program} PRIVATE ${target})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()

# Every room of ci/rooms.txt whose folder has a CMakeLists.txt, in the order of that file.
function(weir_add_rooms)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/CMakeLists.txt"
    "${CMAKE_SOURCE_DIR}/sim/CMakeLists.txt")
  foreach(room IN LISTS WEIR_ROOMS)
    weir_room_dir("${room}" dir)
    if("${dir}/CMakeLists.txt" IN_LIST found)
      add_subdirectory("${dir}")
    endif()
  endforeach()
endfunction()

# ---- tests --------------------------------------------------------------------------------------------------------

# weir_test(NAME ROOMS ... [SOURCES ...] [LABEL unit] [TIMEOUT 60] [COST 0] [LIBS ...] [DEFINES ...])
#
# ROOMS      rooms that the test may include and link, with all that those use. The first is the room under test:
#            its private headers are included as "plog__x.h".
# SOURCES    given: one program, test_NAME. Not given: each test_*.c or *_test.c of the folder is a program of its own,
#            linked with the folder's other *.c files; a file called as NAME itself gives test_NAME.
# Programs link tests/support, which has a base_panic_host that prints and aborts; a test may define its own.
# They run in the folder of the test's sources.
# COST       about how many seconds a long one takes with asan: those start first, so that none goes on alone at the end.
function(weir_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT;COST" "ROOMS;SOURCES;LIBS;DEFINES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weir_test(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT arg_COST)
    set(arg_COST 0)
  endif()
  set(known unit contract sim replay e2e e2e-tsan diff rules)
  foreach(label IN LISTS arg_LABEL)
    if(NOT label IN_LIST known)
      message(FATAL_ERROR "weir_test(${name}): label ${label} is none of ${known}")
    endif()
  endforeach()
  string(REPLACE "/" "_" name "${name}")
  if(arg_SOURCES)
    weir__test_program("test_${name}" ${arg_SOURCES})
    return()
  endif()
  file(GLOB all CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
  set(mains ${all})
  list(FILTER mains INCLUDE REGEX "/(test_[^/]*|[^/]*_test)\\.c$")
  set(helpers ${all})
  if(mains)
    list(REMOVE_ITEM helpers ${mains})
  elseif(all)
    message(FATAL_ERROR "weir_test(${name}): no test_*.c or *_test.c in ${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  foreach(main IN LISTS mains)
    get_filename_component(stem "${main}" NAME_WE)
    string(REGEX REPLACE "^test_|_test$" "" stem "${stem}")
    if(stem STREQUAL name)
      weir__test_program("test_${name}" "${main}" ${helpers})
    elseif(stem MATCHES "^${name}_")
      weir__test_program("test_${stem}" "${main}" ${helpers})
    else()
      weir__test_program("test_${name}_${stem}" "${main}" ${helpers})
    endif()
  endforeach()
endfunction()

# Private: reads arg_ROOMS and the like of its caller.
function(weir__test_program program)
  add_executable(${program} ${ARGN})
  set(folder "${CMAKE_BINARY_DIR}/rooms/${program}")
  weir_rooms_closure(closure ${arg_ROOMS})
  weir_include_folder("${folder}" ${closure})
  weir_use_include_folder(${program} "${folder}")
  list(GET arg_ROOMS 0 first)
  weir_room_dir("${first}" first_dir)
  weir__quote_folders(${program} "${CMAKE_SOURCE_DIR}/tests/support" "${first_dir}" "${WEIR_GEN_ROOT}/${first}")
  target_compile_definitions(${program} PRIVATE _GNU_SOURCE ${arg_DEFINES})
  foreach(room IN LISTS arg_ROOMS)
    weir_room_target("${room}" target)
    if(TARGET ${target})
      target_link_libraries(${program} PRIVATE ${target})
    endif()
  endforeach()
  foreach(lib cmocka ${arg_LIBS})
    find_library(WEIR_LIB_${lib} "${lib}" REQUIRED)
    target_link_libraries(${program} PRIVATE "${WEIR_LIB_${lib}}")
  endforeach()
  if(TARGET test_support)
    target_link_libraries(${program} PRIVATE test_support)
  endif()
  add_test(NAME ${program} COMMAND ${program} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  # Timeouts end what hangs; they judge no speed. A sanitizer, or a machine with other work, makes a test many times slower.
  math(EXPR timeout "${arg_TIMEOUT} * 5")
  set_tests_properties(${program} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${timeout} COST ${arg_COST})
endfunction()

# weir_script_test(NAME COMMAND ... [LABEL e2e] [TIMEOUT 120] [COST 0] [SERIAL]): any other test, run in its folder with
# WEIR_BUILD=BUILD in the environment. Exit 77 is a skip. Labels that say where ci/test runs it not, beside the one of its kind:
#   once     another compiler or a sanitizer has nothing to add: with release only
#   exhaust  long, and the compiler's own work shows elsewhere: not with clang
function(weir_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT;COST" "COMMAND;LABEL")
  if(NOT arg_LABEL)
    set(arg_LABEL e2e)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_COST)
    set(arg_COST 0)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    COST ${arg_COST} RUN_SERIAL "${arg_SERIAL}" ENVIRONMENT "WEIR_BUILD=${CMAKE_BINARY_DIR}")
endfunction()

# test_support: what tests and fuzz targets share, a base_panic_host above all.
function(weir_add_support)
  file(GLOB support CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/support/*.c")
  if(support)
    add_library(test_support STATIC ${support})
    set(folder "${CMAKE_BINARY_DIR}/rooms/test_support")
    weir_include_folder("${folder}" base port)
    weir_use_include_folder(test_support "${folder}")
    target_compile_definitions(test_support PRIVATE _GNU_SOURCE)
  endif()
endfunction()

# Each folder with a CMakeLists.txt; then tests/core/ROOM folders without one, as
# weir_test(ROOM ROOMS ROOM).
function(weir_add_tests)
  set(tests "${CMAKE_SOURCE_DIR}/tests")
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS "${tests}/CMakeLists.txt")
  foreach(list IN LISTS lists)
    get_filename_component(dir "${list}" DIRECTORY)
    add_subdirectory("${dir}")
  endforeach()
  foreach(room IN LISTS WEIR_ROOMS)
    file(GLOB files CONFIGURE_DEPENDS "${tests}/core/${room}/*.c")
    weir_room_target("${room}" target)
    if(files AND TARGET ${target} AND NOT EXISTS "${tests}/core/${room}/CMakeLists.txt")
      set(CMAKE_CURRENT_SOURCE_DIR "${tests}/core/${room}")
      weir_test("${room}" ROOMS "${room}" LABEL unit)
    endif()
  endforeach()
  set(CMAKE_CURRENT_SOURCE_DIR "${CMAKE_SOURCE_DIR}")
  add_test(NAME rules COMMAND "${Python3_EXECUTABLE}" -B "${WEIR_RULES_TOOL}")
  add_test(NAME rules_selftest COMMAND "${Python3_EXECUTABLE}" -B "${WEIR_RULES_TOOL}" --selftest)
  set_tests_properties(rules rules_selftest PROPERTIES LABELS rules TIMEOUT 600)
  set_tests_properties(rules_selftest PROPERTIES COST 90)
endfunction()

# ---- fuzz ---------------------------------------------------------------------------------------------------------

# weir_fuzz(NAME ROOMS ... SOURCES ... [WORLD FOLDER] [LIBS ...]): target fuzz_NAME with LLVMFuzzerTestOneInput. With WEIR_FUZZER it is a fuzzer,
# else it is linked with fuzz/replay.c (the main that runs every file of the folders named on its command line), and a
# test with label replay runs it over fuzz/seeds/NAME.
function(weir_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "WORLD" "ROOMS;SOURCES;LIBS")
  set(program "fuzz_${name}")
  set(replay "${CMAKE_SOURCE_DIR}/fuzz/replay.c")
  if(NOT WEIR_FUZZER AND NOT EXISTS "${replay}")
    return()
  endif()
  add_executable(${program} ${arg_SOURCES})
  set(folder "${CMAKE_BINARY_DIR}/rooms/${program}")
  weir_rooms_closure(closure ${arg_ROOMS})
  weir_include_folder("${folder}" ${closure})
  weir_use_include_folder(${program} "${folder}")
  list(GET arg_ROOMS 0 first)
  weir_room_dir("${first}" first_dir)
  weir__quote_folders(${program} "${CMAKE_SOURCE_DIR}/fuzz" "${first_dir}" "${WEIR_GEN_ROOT}/${first}")
  if(arg_WORLD) # a folder of tests, whose helpers the target uses
    weir__quote_folders(${program} "${CMAKE_SOURCE_DIR}/${arg_WORLD}")
  endif()
  foreach(lib IN LISTS arg_LIBS)
    find_library(WEIR_LIB_${lib} "${lib}" REQUIRED)
    target_link_libraries(${program} PRIVATE "${WEIR_LIB_${lib}}")
  endforeach()
  target_compile_definitions(${program} PRIVATE _GNU_SOURCE)
  foreach(room IN LISTS arg_ROOMS)
    weir_room_target("${room}" target)
    if(TARGET ${target})
      target_link_libraries(${program} PRIVATE ${target})
    endif()
  endforeach()
  if(TARGET test_support)
    target_link_libraries(${program} PRIVATE test_support)
  endif()
  if(WEIR_FUZZER)
    target_link_options(${program} PRIVATE "-fsanitize=${WEIR_FUZZER}")
    return()
  endif()
  target_sources(${program} PRIVATE "${replay}")
  add_test(NAME ${program} COMMAND ${program} "${CMAKE_SOURCE_DIR}/fuzz/seeds/${name}") # fails when there are none
  set_tests_properties(${program} PROPERTIES LABELS replay TIMEOUT 300)
endfunction()

function(weir_add_fuzz)
  file(GLOB list CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/fuzz/CMakeLists.txt")
  if(list)
    add_subdirectory("${CMAKE_SOURCE_DIR}/fuzz")
  endif()
endfunction()
