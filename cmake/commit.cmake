# commit.cmake: the commit that a program was built from, "-dirty" after it if files were changed; empty in a tree that is no git
# repository of its own, such as an unpacked archive.
#
#   windlass_commit(<target>)     adds const char* windlass::commit_text(), found again after each commit, by the build itself
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(windlass_commit target)
    set(generated ${CMAKE_BINARY_DIR}/generated/commit.cpp)
    execute_process(COMMAND git rev-parse --path-format=absolute --git-path logs/HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                    OUTPUT_VARIABLE moves OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed OR NOT EXISTS "${moves}")
      set(moves "")
    endif()
    add_custom_command(OUTPUT ${generated} DEPENDS ${PROJECT_SOURCE_DIR}/cmake/commit.cmake ${moves}
                       COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DTO=${generated} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
    target_sources(${target} PRIVATE ${generated})
    # Alone, so that a commit compiles one small file and no unit of the program.
    set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  endfunction()
  return()
endif()

set(commit "")
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${TREE} OUTPUT_VARIABLE top
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
get_filename_component(here ${TREE} REALPATH)
if(NOT failed AND top STREQUAL here)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${TREE} OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(WRITE ${TO} "// Made by cmake/commit.cmake.
namespace windlass {
const char* commit_text() {
    return \"${commit}\";
}
}  // namespace windlass
")
