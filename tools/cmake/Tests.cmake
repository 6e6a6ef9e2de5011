# Unit tests stand beside their subject: specstep_tests(NAME LAYERS layer ... SOURCES x_test.cpp ... [OPTIMISED])
# Half of what there is to compile are tests, and what they call is optimised in the layers: without optimisation they
# compile a third faster. OPTIMISED is for tests of headers whose templates do the work.
include(GoogleTest)
function(specstep_tests name)
  cmake_parse_arguments(tests "OPTIMISED" "" "SOURCES;LAYERS" ${ARGN})
  add_executable(${name} ${tests_SOURCES})
  target_link_libraries(${name} PRIVATE ${tests_LAYERS} specstep_flags fmt::fmt-header-only nlohmann_json::nlohmann_json
                        GTest::gtest_main GTest::gmock)
  if(NOT tests_OPTIMISED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_compile_definitions(${name} PRIVATE SPECSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
endfunction()
