# SPDX-License-Identifier: Apache-2.0
# AFL++ drives the same targets. Without AFL_LLVM_LAF_ALL=1 in the environment of the build, or a dictionary, it finds little.
set(CMAKE_C_COMPILER "afl-clang-fast" CACHE STRING "")
set(CMAKE_BUILD_TYPE "Debug" CACHE STRING "")
set(WEIR_RULES OFF CACHE BOOL "")
set(WEIR_TESTS OFF CACHE BOOL "")
set(WEIR_WERROR OFF CACHE BOOL "")
set(WEIR_FUZZER "fuzzer" CACHE STRING "")
set(CMAKE_C_COMPILER_LAUNCHER "" CACHE STRING "")
