# Parts that are built where their libraries are: the CUDA and MPI modules. AUTO takes what it finds, ON insists.
include(CheckLanguage)

set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # before any target: one runtime, the node's
set(SPECSTEP_WITH_CUDA OFF)
if(NOT SPECSTEP_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 12.8 QUIET)
  if(CUDAToolkit_FOUND)
    set(SPECSTEP_WITH_CUDA ON)
    include(Cuda)
  elseif(SPECSTEP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SPECSTEP_CUDA=ON, but no CUDA toolkit of version 12.8 or later was found")
  endif()
endif()

set(SPECSTEP_WITH_MPI OFF)
if(NOT SPECSTEP_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(SPECSTEP_WITH_MPI ON)
  elseif(SPECSTEP_MPI STREQUAL "ON")
    message(FATAL_ERROR "SPECSTEP_MPI=ON, but no MPI was found")
  endif()
endif()
message(STATUS "CUDA module: ${SPECSTEP_WITH_CUDA}, MPI module: ${SPECSTEP_WITH_MPI}")

# specstep_module(NAME SOURCES a.cpp ... USES library ...): lib/specstep/NAME.so, opened by sim/module.cpp when asked for.
# Its table is all that it shows; what that does not reach is dropped.
function(specstep_module name)
  cmake_parse_arguments(module "" "" "SOURCES;USES" ${ARGN})
  add_library(specstep_${name} MODULE ${module_SOURCES})
  target_link_libraries(specstep_${name} PRIVATE specstep_flags specstep_sim specstep_fmt ${module_USES})
  set_target_properties(specstep_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} CXX_VISIBILITY_PRESET hidden)
  target_link_options(specstep_${name} PRIVATE
    -Wl,--gc-sections -Wl,--version-script=${PROJECT_SOURCE_DIR}/tools/cmake/module.map)
  set_property(TARGET specstep_${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cmake/module.map)
  install(TARGETS specstep_${name} DESTINATION lib/specstep)
endfunction()
