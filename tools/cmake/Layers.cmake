# A layer is a static library that links only what lies below it.
#   specstep_layer(NAME SOURCES a.cpp ... BELOW layer ... USES package ...)
# USES packages are private: their headers may appear only in this layer's .cpp files.
#
# Under SPECSTEP_FROM_NOTHING files of a layer are compiled in groups of eight, so that headers are read and their
# templates expanded once a group. Files whose private names clash with others' are marked SKIP_UNITY_BUILD_INCLUSION.
# Functions have sections of their own, so that a module drops what it does not call.
function(specstep_in_groups name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${SPECSTEP_FROM_NOTHING})
endfunction()

function(specstep_layer name)
  cmake_parse_arguments(layer "" "" "SOURCES;BELOW;USES" ${ARGN})
  add_library(${name} STATIC ${layer_SOURCES})
  target_link_libraries(${name} PUBLIC specstep_flags ${layer_BELOW} PRIVATE ${layer_USES})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections -fdata-sections>)
  specstep_in_groups(${name})
endfunction()
