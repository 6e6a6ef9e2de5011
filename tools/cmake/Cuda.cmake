# Device code: which GPUs it is compiled for, and libraries that hold it.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE present OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed OR present STREQUAL "")
    set(present "8.0\n9.0\n12.0")  # data-centre Ampere and Hopper, and Blackwell workstations; the last with PTX for later ones
  endif()
  string(REPLACE "." "" present "${present}")
  string(REPLACE "\n" ";" present "${present}")
  list(REMOVE_DUPLICATES present)
  list(SORT present COMPARE NATURAL)
  list(POP_BACK present newest)
  list(TRANSFORM present APPEND "-real")
  set(CMAKE_CUDA_ARCHITECTURES ${present} ${newest})
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
message(STATUS "GPU architectures: ${CMAKE_CUDA_ARCHITECTURES}")

# specstep_cuda_layer(NAME SOURCES a.cpp b.cu ... BELOW layer ... USES library ...): as specstep_layer, with the CUDA runtime.
function(specstep_cuda_layer name)
  cmake_parse_arguments(layer "" "" "SOURCES;BELOW;USES" ${ARGN})
  add_library(${name} STATIC ${layer_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  target_link_libraries(${name} PUBLIC specstep_flags ${layer_BELOW} CUDA::cudart PRIVATE fmt::fmt-header-only ${layer_USES})
endfunction()
