# Unit tests stand beside their subject: specstep_tests(NAME LAYERS layer ... SOURCES x_test.cpp ... [OPTIMISED] [GROUPED]
# [WHOLE])
# Half of what there is to compile are tests, and what they call is optimised in the layers: without optimisation they
# compile a third faster. OPTIMISED is for tests of headers whose templates do the work.
# Under SPECSTEP_FROM_NOTHING the others share one precompiled header, that of base_test, and GROUPED ones, whose private
# names differ from file to file, are compiled in groups as layers are. A WHOLE program is one test of ctest: its tests share
# what takes most of their time.
include(GoogleTest)
function(specstep_tests name)
  cmake_parse_arguments(tests "OPTIMISED;GROUPED;WHOLE" "" "SOURCES;LAYERS" ${ARGN})
  add_executable(${name} ${tests_SOURCES})
  target_link_libraries(${name} PRIVATE ${tests_LAYERS} specstep_flags specstep_fmt nlohmann_json::nlohmann_json
                        GTest::gtest_main GTest::gmock)
  if(NOT tests_OPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
    if(SPECSTEP_FROM_NOTHING AND name STREQUAL base_test)
      target_precompile_headers(base_test PRIVATE <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
    elseif(SPECSTEP_FROM_NOTHING)
      target_precompile_headers(${name} REUSE_FROM base_test)
    endif()
  endif()
  if(tests_GROUPED)
    specstep_in_groups(${name})
  endif()
  target_compile_definitions(${name} PRIVATE SPECSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(tests_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS unit)
  else()
    gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
