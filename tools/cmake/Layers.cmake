# A layer is a static library that links only what lies below it.
#   specstep_layer(NAME SOURCES a.cpp ... BELOW layer ... USES package ...)
# USES packages are private: their headers may appear only in this layer's .cpp files.
function(specstep_layer name)
  cmake_parse_arguments(layer "" "" "SOURCES;BELOW;USES" ${ARGN})
  add_library(${name} STATIC ${layer_SOURCES})
  target_link_libraries(${name} PUBLIC specstep_flags ${layer_BELOW} PRIVATE ${layer_USES})
endfunction()
