# cuda.cmake: the CUDA part of the house, as objects that a program links: windlass_cuda_runtime, and windlass_cuda, the
# kernels: with NVIDIA's compiler where there is one, else without any. tests/CMakeLists.txt compiles the same sources
# for devices that are the CPU.
#
# src/**/x_cuda.cpp is compiled for the host, x_cuda.cu for devices. no_cuda.cpp stands for all of them in a folder.

option(WINDLASS_KERNEL_REPORT "Keep what nvcc reports of each kernel, which tools/kernel-report --built reads" OFF)
include(${CMAKE_CURRENT_LIST_DIR}/find_cuda.cmake)

file(GLOB_RECURSE WINDLASS_CUDA_CELLS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cpp)
file(GLOB_RECURSE WINDLASS_CUDA_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cu)
# Those of one architecture, sm_90a, are compiled for it alone.
set(WINDLASS_HOPPER_KERNELS ${WINDLASS_CUDA_KERNELS})
list(FILTER WINDLASS_HOPPER_KERNELS INCLUDE REGEX "_hopper_cuda\\.cu$")
set(WINDLASS_NO_CUDA ${WINDLASS_CUDA_CELLS})
list(FILTER WINDLASS_NO_CUDA INCLUDE REGEX "/no_cuda\\.cpp$")
list(FILTER WINDLASS_CUDA_CELLS EXCLUDE REGEX "/no_cuda\\.cpp$|/src/device/")
set(WINDLASS_NO_CUDART ${WINDLASS_NO_CUDA})
list(FILTER WINDLASS_NO_CUDART INCLUDE REGEX "/src/device/")
list(FILTER WINDLASS_NO_CUDA EXCLUDE REGEX "/src/device/")

# Objects, not an archive: the floors ask for their tables, and they ask for the floors.
function(windlass_cuda_objects target)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE fmt::fmt)
endfunction()

if(WINDLASS_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${WINDLASS_FOUND_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${WINDLASS_CUDA_COMPILED})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${WINDLASS_CACHED})
  enable_language(CUDA)
  # Debian's CMake knows no standard of nvcc's beyond 17.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
  windlass_cuda_objects(windlass_cuda_runtime ${PROJECT_SOURCE_DIR}/src/device/cuda/runtime_cuda.cpp
                        ${PROJECT_SOURCE_DIR}/src/device/cuda/any_kernel.cu)
  target_link_libraries(windlass_cuda_runtime PUBLIC CUDA::cudart_static)
  target_compile_definitions(windlass_cuda_runtime PRIVATE "WINDLASS_CUDA_CARDS=\"${WINDLASS_CUDA_CARDS}\"")
  set(any_kernels ${WINDLASS_CUDA_KERNELS})
  list(REMOVE_ITEM any_kernels ${WINDLASS_HOPPER_KERNELS})
  windlass_cuda_objects(windlass_cuda ${WINDLASS_CUDA_CELLS} ${any_kernels})
  set(kernel_targets windlass_cuda)
  if("${WINDLASS_CUDA_COMPILED}" MATCHES "(^|;)90a")
    windlass_cuda_objects(windlass_cuda_hopper ${WINDLASS_HOPPER_KERNELS})
    set_target_properties(windlass_cuda_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real)
    target_sources(windlass_cuda INTERFACE $<TARGET_OBJECTS:windlass_cuda_hopper>)
    list(APPEND kernel_targets windlass_cuda_hopper)
  else()
    target_compile_definitions(windlass_cuda PRIVATE WINDLASS_NO_HOPPER)
  endif()
  foreach(target ${kernel_targets})
    # Each operation is rounded once, as on the CPU; a kernel that wants a fused multiply-add asks for it.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr>)
    if(WINDLASS_KERNEL_REPORT)
      set_target_properties(${target} PROPERTIES
        CUDA_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/keep-ptxas-log;${WINDLASS_CACHED}")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
    endif()
  endforeach()
  if(WINDLASS_KERNEL_REPORT)
    set_target_properties(windlass_cuda_runtime PROPERTIES
      CUDA_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/keep-ptxas-log;${WINDLASS_CACHED}")
    target_compile_options(windlass_cuda_runtime PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
    set(exact ${WINDLASS_CUDA_KERNELS})  # their PTX is read too
    list(FILTER exact EXCLUDE REGEX "/src/op/")
    set_source_files_properties(${exact} PROPERTIES COMPILE_OPTIONS --no-compress)
  endif()
  target_link_libraries(windlass_cuda PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
  # Cells alone: CMake unites no CUDA before 3.31, and kernel-report reads a log of each kernel's file.
  set_source_files_properties(${WINDLASS_CUDA_KERNELS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    windlass_unite(windlass_cuda "")
  endif()
else()
  windlass_cuda_objects(windlass_cuda_runtime ${WINDLASS_NO_CUDART})
  string(REPLACE "\"" "'" why "${WINDLASS_WITHOUT_CUDA}")
  target_compile_definitions(windlass_cuda_runtime PRIVATE "WINDLASS_WITHOUT_CUDA=\"${why}\"")
  windlass_cuda_objects(windlass_cuda ${WINDLASS_NO_CUDA})
endif()

# The same cells and kernels, and a runtime, for devices that are the CPU: tests/simt. Called where the sources have no
# other language: in tests/. The kernels are a target of their own, <target>_kernels, since each of their units begins with
# the words of CUDA C++; whoever links the target gets them, too.
function(windlass_simt_objects target)
  file(GLOB runtime CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simt/*.cpp)
  set_source_files_properties(${WINDLASS_CUDA_KERNELS} PROPERTIES LANGUAGE CXX)
  set(cells ${WINDLASS_CUDA_CELLS})
  list(FILTER cells EXCLUDE REGEX "/cublaslt_cuda\\.cpp$")
  windlass_cuda_objects(${target} ${cells} ${runtime} ${PROJECT_SOURCE_DIR}/tests/unit/device/late_queue.cpp)
  windlass_cuda_objects(${target}_kernels ${WINDLASS_CUDA_KERNELS})
  target_compile_options(${target}_kernels PRIVATE "SHELL:-include ${PROJECT_SOURCE_DIR}/tests/simt/language.h"
                         -Wno-psabi)  # GCC notes that arguments with tensor maps were once passed otherwise
  target_sources(${target} INTERFACE $<TARGET_OBJECTS:${target}_kernels>)
  target_link_libraries(${target} PUBLIC Boost::context)
  foreach(part ${target} ${target}_kernels)
    target_include_directories(${part} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_options(${part} PRIVATE $<$<CONFIG:Release>:-O2>)  # most of the time of many tests is spent here
  endforeach()
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    windlass_unite(${target} "")
    windlass_unite(${target}_kernels "" 6)  # more would put all files of attention into one unit
  endif()
  # GCC 12 crashes on the headers that -Og and a sanitizer have compiled, where -O2 reads them.
  if(target MATCHES "_sanitized$")
    windlass_sanitize(${target})
    windlass_sanitize(${target}_kernels)
  else()
    windlass_precompile(${target})
  endif()
endfunction()
