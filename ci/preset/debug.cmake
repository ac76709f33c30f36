# SPDX-License-Identifier: Apache-2.0
set(CMAKE_C_COMPILER "gcc" CACHE STRING "")
set(CMAKE_BUILD_TYPE "Debug" CACHE STRING "")
