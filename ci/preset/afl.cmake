# SPDX-License-Identifier: Apache-2.0
# AFL++ drives the same targets, with addresses checked. ci/fuzz sets AFL_LLVM_LAF_ALL=1 for the build: without that, or a
# dictionary, it finds little.
set(CMAKE_C_COMPILER "afl-clang-fast" CACHE STRING "")
set(CMAKE_BUILD_TYPE "Debug" CACHE STRING "")
set(WEIR_RULES OFF CACHE BOOL "")
set(WEIR_TESTS OFF CACHE BOOL "")
set(WEIR_WERROR OFF CACHE BOOL "")
set(WEIR_SANITIZE "address" CACHE STRING "")
set(WEIR_FUZZER "fuzzer" CACHE STRING "")
set(CMAKE_C_COMPILER_LAUNCHER "" CACHE STRING "")
