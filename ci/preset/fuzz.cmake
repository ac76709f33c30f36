# SPDX-License-Identifier: Apache-2.0
# libFuzzer, with address and undefined behaviour.
set(CMAKE_C_COMPILER "clang-19" CACHE STRING "")
set(CMAKE_BUILD_TYPE "Debug" CACHE STRING "")
set(WEIR_RULES OFF CACHE BOOL "")
set(WEIR_TESTS OFF CACHE BOOL "")
set(WEIR_SANITIZE "address,undefined" CACHE STRING "")
set(WEIR_FUZZER "fuzzer" CACHE STRING "")
