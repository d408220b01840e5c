# floor.cmake: one static library per floor of the house.
#
#   windlass_floor(<name> <number> [SEES <floor>...] [LINK <link items>...])
#
# collects src/<name>/**.cpp, except *_isa.cpp, which are compiled once per instruction set (below), and *_cuda.cpp
# (cuda.cmake).

set(WINDLASS_ISAS baseline avx2 avx512)
set(WINDLASS_ISA_FLAGS_baseline "")
set(WINDLASS_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(WINDLASS_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)

# The standard headers are compiled once, with the lowest floor; every other target takes them from there. A compiler
# refuses what was compiled with other settings, so the targets that are optimised less share their own: those of
# WINDLASS_LIGHT, and programs that name LIGHT.
function(windlass_precompile target)
  set(lowest windlass_base)
  if(target MATCHES "_sanitized$")
    set(lowest windlass_base_sanitized)
  elseif(target IN_LIST WINDLASS_LIGHT OR "LIGHT" IN_LIST ARGN)
    list(GET WINDLASS_LIGHT 0 lowest)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(target STREQUAL lowest)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/base/pch.h)
  else()
    target_precompile_headers(${target} REUSE_FROM ${lowest})
  endif()
endfunction()

# With WINDLASS_SANITIZED_FLOORS each floor is made twice: as released, and as windlass_<name>_sanitized, instrumented,
# for the tests that run a second time (windlass_test). Without debugging information: reports name functions; the preset
# `asan` also names lines.
function(windlass_floor name number)
  cmake_parse_arguments(ARG "" "" "SEES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_cuda\\.cpp$")
  set_property(GLOBAL PROPERTY WINDLASS_SEES_${name} ${ARG_SEES})
  list(TRANSFORM ARG_SEES PREPEND windlass_)
  if(NOT sources)
    message(FATAL_ERROR "src/${name} has no sources")
  endif()
  windlass_floor_library(windlass_${name} "" "${sources}" ${ARG_SEES} ${ARG_LINK})
  if(WINDLASS_SANITIZED_FLOORS)
    list(TRANSFORM ARG_SEES APPEND _sanitized)
    windlass_floor_library(windlass_${name}_sanitized EXCLUDE_FROM_ALL "${sources}" ${ARG_SEES} ${ARG_LINK})
    windlass_sanitize(windlass_${name}_sanitized)
  endif()
endfunction()

# Unity builds compile several files as one, so that headers are read, and templates instantiated, once for all of them.
# Names in unnamed namespaces therefore differ within a floor, within the program and within a program of tests; files
# of a list (ops, families, adapters) have namespaces of their own. Release builds take less than half the time this way;
# other builds compile file by file, which proves that each file includes what it needs. Policies, recipes and foreign
# configurations define the same few names each, and are compiled alone. A third argument is the largest number of files
# in a unit: the files are shared out evenly. 24 files of a floor take GCC about 1.2 GiB, 48 of tests 2 GiB.
function(windlass_unite target sources)
  set(largest 24)
  if(ARGC GREATER 2)
    set(largest ${ARGV2})
  endif()
  set(alone ${sources})
  list(FILTER alone INCLUDE REGEX "/policies/|/foreign/|/recipe\\.cpp$")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  list(FILTER sources EXCLUDE REGEX "/policies/|/foreign/|/recipe\\.cpp$")
  list(LENGTH sources files)
  set(batch ${largest})
  if(files)
    math(EXPR units "(${files} + ${largest} - 1) / ${largest}")
    math(EXPR batch "(${files} + ${units} - 1) / ${units}")
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

# A static library of `sources`; what follows is what it links.
function(windlass_floor_library target scope sources)
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "_isa\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_isa\\.cpp$")
  add_library(${target} STATIC ${scope} ${sources})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  windlass_precompile(${target})
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    windlass_unite(${target} "${sources}")
  endif()
  target_link_libraries(${target} PUBLIC ${ARGN})
  if(isa_sources)
    windlass_isa_sources(${target} ${isa_sources})
  endif()
endfunction()

# The checks of each access for null, alignment and size double the time that the compiler takes. The address sanitizer
# sees most of what the first and the last would, and the preset `asan` keeps all three. The largest kernel compiles in a
# quarter of the time at -O1; with sanitizers GCC vectorises no loop of adamw_isa.cpp at -O3 either.
function(windlass_sanitize target)
  target_compile_options(${target} PRIVATE -Og -UNDEBUG -fsanitize=${WINDLASS_SANITIZED_FLOORS} ${WINDLASS_SANITIZE_OPTIONS}
                         -fno-sanitize=null,alignment,object-size)
  foreach(isa ${WINDLASS_ISAS})
    if(TARGET ${target}_${isa})
      target_compile_options(${target}_${isa} PRIVATE -O1 -UNDEBUG -fsanitize=${WINDLASS_SANITIZED_FLOORS}
                             ${WINDLASS_SANITIZE_OPTIONS})
    endif()
  endforeach()
endfunction()

# Compiles each source once per instruction set, with WINDLASS_ISA naming the inner namespace. Such a file
# includes no header with inline functions of ours: an AVX-512 copy of one must never be what the linker keeps.
function(windlass_isa_sources target)
  foreach(isa ${WINDLASS_ISAS})
    add_library(${target}_${isa} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(${target}_${isa} PRIVATE WINDLASS_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${WINDLASS_ISA_FLAGS_${isa}} -O3 -fopenmp-simd)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()

# These floors and all that they link.
function(windlass_floors_below result)
  set(all ${ARGN})
  set(open ${ARGN})
  while(open)
    list(POP_FRONT open floor)
    get_property(below GLOBAL PROPERTY WINDLASS_SEES_${floor})
    list(REMOVE_ITEM below ${all})
    list(APPEND all ${below})
    list(APPEND open ${below})
  endwhile()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

#   windlass_depends(<ctest entry> TARGETS <target>... PARTS <part>...)
#
# For run-tests --since: the entry's programs, and the parts of the project (tools/changed-parts) whose changes may change
# its result. Parts become labels of the entry; BUILD/test_targets.txt has a line "entry target..." for each.
function(windlass_depends entry)
  cmake_parse_arguments(ARG "" "" "TARGETS;PARTS" ${ARGN})
  set_property(TEST ${entry} APPEND PROPERTY LABELS ${ARG_PARTS})
  list(JOIN ARG_TARGETS " " targets)
  set_property(GLOBAL APPEND_STRING PROPERTY WINDLASS_TEST_TARGETS "${entry} ${targets}\n")
endfunction()

function(windlass_write_test_targets)
  get_property(lines GLOBAL PROPERTY WINDLASS_TEST_TARGETS)
  file(WRITE ${CMAKE_BINARY_DIR}/test_targets.txt "${lines}")
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
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    windlass_unite(${name} "${sources}")
  endif()
  target_link_libraries(${name} PRIVATE windlass_cuda windlass_cuda_runtime ${ARG_SEES} ${ARG_LINK})
endfunction()

# What all test programs share: main(), GoogleTest, and its headers compiled once; file systems that fail.
function(windlass_test_main)
  windlass_test_main_library(test_main "" windlass_base)
  target_precompile_headers(test_main PRIVATE ${PROJECT_SOURCE_DIR}/tests/pch.h)
  add_custom_target(tests)
  if(WINDLASS_SANITIZED_FLOORS)
    windlass_test_main_library(test_main_sanitized EXCLUDE_FROM_ALL windlass_base_sanitized)
    windlass_sanitize(test_main_sanitized)
    target_compile_definitions(test_main_sanitized PRIVATE WINDLASS_SECOND_RUN)
    target_link_options(test_main_sanitized PUBLIC -fsanitize=${WINDLASS_SANITIZED_FLOORS})
    add_custom_target(tests_sanitized)
  endif()
endfunction()

function(windlass_test_main_library target scope base)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.cpp)
  add_library(${target} STATIC ${scope} ${sources})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  # One file knows where the trees lie, so that a compiler cache serves every copy of them.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/place.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_DEFINITIONS "WINDLASS_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\";WINDLASS_BINARY_DIR=\"${CMAKE_BINARY_DIR}\"")
  target_link_libraries(${target} PUBLIC GTest::gmock GTest::gtest fmt::fmt ${base})
endfunction()

#   windlass_test(<name> <folder> [ALSO <folder>...] [SEES <floor>...] [LINK ...] [LABELS <label>...] [NEEDS <program>...]
#                 [READS <part>...] [MINUTES <n>] [APART] [LOW] [SIMT])
#
# makes one GoogleTest program of tests/<folder>/*.cpp, and those of the folders of ALSO, and one ctest entry, <name>. Test suites whose names begin with
# Slow are an entry of their own, <name>_slow, with the label slow. NEEDS names programs that the tests run. MINUTES is
# about how long it takes: the longest begin first, so that none is left running alone. An entry that hangs is ended after
# a quarter of an hour, a slow one after an hour: several times what they take where others compute, too.
# PARTS: a number of entries, <name>_1 and on, share its tests, so that one slow program does not finish last.
# APART: the files use the same short names, and are compiled one by one.
# READS: parts of the project (tools/changed-parts) besides its floors and its folder that its result depends on.
# LOW: it sees floors below the ops, whose kernels it does not link.
# SIMT: its CUDA devices are the CPU (windlass_simt_objects).
#
# With WINDLASS_SANITIZED_FLOORS there is a second program and entry, <name>_sanitized, unless the label is plain: the
# same objects of the tests, linked with the instrumented floors. So tests are compiled once.
function(windlass_test name folder)
  cmake_parse_arguments(ARG "APART;LOW;SIMT" "MINUTES;PARTS" "ALSO;SEES;LINK;LABELS;NEEDS;READS" ${ARGN})
  set(folders ${folder} ${ARG_ALSO})
  list(TRANSFORM folders PREPEND tests/)
  list(TRANSFORM folders PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns APPEND /*.cpp)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  windlass_floors_below(parts ${ARG_SEES})
  list(APPEND parts ${folders} ${ARG_READS})
  if(ARG_SIMT)
    list(APPEND parts tests/simt)
  endif()
  list(TRANSFORM ARG_SEES PREPEND windlass_)
  set(cuda windlass_cuda_runtime)
  set(cuda_sanitized windlass_cuda_runtime)
  if(ARG_SIMT)
    set(cuda windlass_simt)
    set(cuda_sanitized windlass_simt_sanitized)
  elseif(NOT ARG_LOW)
    list(APPEND cuda windlass_cuda)
    list(APPEND cuda_sanitized windlass_cuda)
  endif()
  add_executable(${name} ${sources})
  target_precompile_headers(${name} REUSE_FROM test_main)
  if(WINDLASS_SANITIZED_FLOORS AND NOT ARG_APART)
    windlass_unite(${name} "${sources}" 48)
  endif()
  target_link_libraries(${name} PRIVATE ${cuda} ${ARG_SEES} ${ARG_LINK} test_main)
  if(NOT (WINDLASS_SANITIZE AND "plain" IN_LIST ARG_LABELS))  # what will not run need not be built
    add_dependencies(tests ${name})
  endif()
  if(ARG_NEEDS)
    add_dependencies(${name} ${ARG_NEEDS})
  endif()
  windlass_test_entry(${name} "-Slow*:*/Slow*" "${ARG_LABELS}" "${ARG_MINUTES}" ${name} ${ARG_PARTS})
  foreach(source ${sources})
    file(STRINGS ${source} slow REGEX "^(TEST|TEST_F|TEST_P|INSTANTIATE_TEST_SUITE_P)\\((Slow|[A-Za-z]+, Slow)")
    if(slow)
      windlass_test_entry(${name}_slow "Slow*:*/Slow*" "slow;${ARG_LABELS}" "" ${name})
      break()
    endif()
  endforeach()
  if(WINDLASS_SANITIZED_FLOORS AND NOT "plain" IN_LIST ARG_LABELS)
    add_executable(${name}_sanitized EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}>)
    list(TRANSFORM ARG_SEES APPEND _sanitized)
    target_link_libraries(${name}_sanitized PRIVATE ${cuda_sanitized} ${ARG_SEES} ${ARG_LINK} test_main_sanitized)
    add_dependencies(tests_sanitized ${name}_sanitized)
    windlass_test_entry(${name}_sanitized "-Slow*:*/Slow*" "sanitized;${ARG_LABELS}" "${ARG_MINUTES}" ${name}_sanitized
                        ${ARG_PARTS})
  endif()
endfunction()

# An optional last argument: PARTS.
function(windlass_test_entry entry filter labels minutes program)
  if(ARGC GREATER 5)
    foreach(part RANGE 1 ${ARGV5})
      math(EXPR index "${part} - 1")
      windlass_add_test(${entry}_${part} "GTEST_TOTAL_SHARDS=${ARGV5};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    windlass_add_test(${entry} "")
  endif()
endfunction()

# Reads its caller's filter, labels, minutes, program and parts.
macro(windlass_add_test entry environment)
  set(limit 900)  # seconds
  if("slow" IN_LIST labels)
    set(limit 3600)
  endif()
  add_test(NAME ${entry} COMMAND ${program} --gtest_filter=${filter} --gtest_brief=1
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${entry} PROPERTIES ENVIRONMENT "OMP_WAIT_POLICY=PASSIVE;${environment}" LABELS "${labels}"
                                           TIMEOUT ${limit})
  if(minutes)
    set_tests_properties(${entry} PROPERTIES COST ${minutes})
  endif()
  windlass_depends(${entry} TARGETS ${program} PARTS ${parts})
endmacro()
