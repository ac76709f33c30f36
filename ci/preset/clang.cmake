# SPDX-License-Identifier: Apache-2.0
set(CMAKE_C_COMPILER "clang-19" CACHE STRING "")
set(CMAKE_BUILD_TYPE "Release" CACHE STRING "")
