# What every target of specstep is compiled with.
add_library(specstep_flags INTERFACE)
target_compile_features(specstep_flags INTERFACE cxx_std_20)
target_include_directories(specstep_flags INTERFACE ${PROJECT_SOURCE_DIR})
# g++ behind nvcc sees generated code, to which the stricter ones do not apply. CMake 3.25 knows no C++20 of nvcc.
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
  # Files compiled in a group see each other's private names.
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>
  # clang knows fewer names. g++ 12: the first objects to designated initialisers, the others are false alarms on strings.
  -Wno-unknown-warning-option -Wno-missing-field-initializers -Wno-maybe-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${SPECSTEP_WERROR}>:-Werror>)
target_compile_options(specstep_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SPECSTEP_WERROR}>>:--Werror=all-warnings;-Xcompiler=-Werror>")
if(SPECSTEP_SANITIZE)
  list(JOIN SPECSTEP_SANITIZE "," sanitizers)
  target_compile_options(specstep_flags INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(specstep_flags INTERFACE -fsanitize=${sanitizers})
endif()
if(SPECSTEP_FUZZ)
  target_compile_options(specstep_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# Formatting goes into each file, so that the installed folder runs where its library is not; a build from nothing uses the
# library, which saves a tenth of the time.
add_library(specstep_fmt INTERFACE)
target_link_libraries(specstep_fmt INTERFACE $<IF:$<BOOL:${SPECSTEP_FROM_NOTHING}>,fmt::fmt,fmt::fmt-header-only>)
