# floor.cmake: one static library per floor of the house.
#
#   windlass_floor(<name> <number> [SEES <floor>...] [LINK <link items>...])
#
# collects src/<name>/**.cpp, except *_isa.cpp, which are compiled once per instruction set (below).
# A floor without sources becomes an interface library, so that the list can stand before the code does.

set(WINDLASS_ISAS baseline avx2 avx512)
set(WINDLASS_ISA_FLAGS_baseline "")
set(WINDLASS_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(WINDLASS_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)

# The standard headers are compiled once, with the lowest floor; every other target takes them from there.
function(windlass_precompile target)
  if(target STREQUAL windlass_base)
    target_precompile_headers(windlass_base PRIVATE ${PROJECT_SOURCE_DIR}/src/base/pch.h)
  else()
    target_precompile_headers(${target} REUSE_FROM windlass_base)
  endif()
endfunction()

function(windlass_floor name number)
  cmake_parse_arguments(ARG "" "" "SEES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "_isa\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_isa\\.cpp$")
  list(TRANSFORM ARG_SEES PREPEND windlass_)
  if(NOT sources)
    add_library(windlass_${name} INTERFACE)
    target_include_directories(windlass_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(windlass_${name} INTERFACE ${ARG_SEES})
    return()
  endif()
  add_library(windlass_${name} STATIC ${sources})
  target_include_directories(windlass_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  windlass_precompile(windlass_${name})
  target_link_libraries(windlass_${name} PUBLIC ${ARG_SEES} ${ARG_LINK})
  if(isa_sources)
    windlass_isa_sources(windlass_${name} ${isa_sources})
  endif()
endfunction()

# Compiles each source once per instruction set, with WINDLASS_ISA naming the inner namespace. Such a file
# includes no header with inline functions of ours: an AVX-512 copy of one must never be what the linker keeps.
function(windlass_isa_sources target)
  foreach(isa ${WINDLASS_ISAS})
    add_library(${target}_${isa} OBJECT ${ARGN})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(${target}_${isa} PRIVATE WINDLASS_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${WINDLASS_ISA_FLAGS_${isa}} -O3 -fopenmp-simd)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()

function(windlass_program name folder)
  cmake_parse_arguments(ARG "" "" "SEES;LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  list(TRANSFORM ARG_SEES PREPEND windlass_)
  windlass_precompile(${name})
  target_link_libraries(${name} PRIVATE ${ARG_SEES} ${ARG_LINK})
endfunction()

# What all test programs share: main(), GoogleTest, and its headers compiled once.
function(windlass_test_main)
  add_library(test_main STATIC ${PROJECT_SOURCE_DIR}/tests/main.cpp ${PROJECT_SOURCE_DIR}/tests/place.cpp)
  target_include_directories(test_main PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  # One file knows where the trees lie, so that a compiler cache serves every copy of them.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/place.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_DEFINITIONS "WINDLASS_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";WINDLASS_BINARY_DIR=\"${CMAKE_BINARY_DIR}\"")
  target_precompile_headers(test_main PRIVATE ${PROJECT_SOURCE_DIR}/tests/pch.h)
  target_link_libraries(test_main PUBLIC GTest::gmock GTest::gtest fmt::fmt)
  add_custom_target(tests)
endfunction()

#   windlass_test(<name> <folder> [SEES <floor>...] [LINK ...] [LABELS <label>...] [NEEDS <program>...] [MINUTES <n>])
#
# makes one GoogleTest program of tests/<folder>/*.cpp and one ctest entry, <name>. Test suites whose names begin with
# Slow are an entry of their own, <name>_slow, with the label slow. NEEDS names programs that the tests run. MINUTES is
# about how long it takes: the longest begin first, so that none is left running alone.
function(windlass_test name folder)
  cmake_parse_arguments(ARG "" "MINUTES" "SEES;LINK;LABELS;NEEDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  list(TRANSFORM ARG_SEES PREPEND windlass_)
  add_executable(${name} ${sources})
  target_precompile_headers(${name} REUSE_FROM test_main)
  target_link_libraries(${name} PRIVATE ${ARG_SEES} ${ARG_LINK} test_main)
  if(NOT (WINDLASS_SANITIZE AND "plain" IN_LIST ARG_LABELS))  # what will not run need not be built
    add_dependencies(tests ${name})
  endif()
  if(ARG_NEEDS)
    add_dependencies(${name} ${ARG_NEEDS})
  endif()
  windlass_test_entry(${name} "-Slow*:*/Slow*" "${ARG_LABELS}" ${name})
  if(ARG_MINUTES)
    set_tests_properties(${name} PROPERTIES COST ${ARG_MINUTES})
  endif()
  foreach(source ${sources})
    file(STRINGS ${source} slow REGEX "^(TEST|TEST_F|TEST_P|INSTANTIATE_TEST_SUITE_P)\\((Slow|[A-Za-z]+, Slow)")
    if(slow)
      windlass_test_entry(${name}_slow "Slow*:*/Slow*" "slow;${ARG_LABELS}" ${name})
      break()
    endif()
  endforeach()
endfunction()

function(windlass_test_entry entry filter labels program)
  add_test(NAME ${entry} COMMAND ${program} --gtest_filter=${filter} --gtest_brief=1
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${entry} PROPERTIES ENVIRONMENT "OMP_WAIT_POLICY=PASSIVE" LABELS "${labels}" TIMEOUT 900)
endfunction()
