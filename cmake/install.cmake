# install.cmake: what `cmake --install` and the packages contain (docs/dev/packaging.md).
#
#   windlass_install(<target>)     rules for the program and its pages; call it when all that the program links is known
#
# Components: Unspecified, which is the program for machines that have its libraries; manual, its pages; portable, which
# only its name installs, the program with its libraries in ../lib.
include(GNUInstallDirs)

option(WINDLASS_PACKAGES "Build what packages contain, too: a second program that brings its libraries (tools/package)" OFF)
if(WINDLASS_PACKAGES)
  # Debian has no static archive of fmt, and no exception may cross from one C++ runtime into another.
  add_compile_definitions(FMT_HEADER_ONLY=1)
  add_link_options(LINKER:--as-needed)
endif()

function(windlass_install target)
  install(TARGETS ${target} RUNTIME)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE TYPE DOC COMPONENT manual)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/guide ${PROJECT_SOURCE_DIR}/docs/format ${PROJECT_SOURCE_DIR}/docs/results
          ${PROJECT_SOURCE_DIR}/examples TYPE DOC COMPONENT manual PATTERN __pycache__ EXCLUDE PATTERN runs EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/security.md TYPE DOC COMPONENT manual)
  if(WINDLASS_PACKAGES)
    windlass_install_portable(${target})
  endif()
endfunction()

# The same objects, linked with the C++ runtime and yaml-cpp inside; the other libraries are found in ../lib, whichever
# program asks for them: RPATH, not RUNPATH, holds for oneDNN's own libraries too. OpenMP's runtime stays shared, since
# oneDNN uses the same.
function(windlass_install_portable target)
  find_library(WINDLASS_STATIC_YAML libyaml-cpp.a REQUIRED)
  add_executable(${target}_portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}>)
  set_target_properties(${target}_portable PROPERTIES OUTPUT_NAME ${target} INSTALL_RPATH "$ORIGIN/../lib"
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable LINKER_LANGUAGE CXX)
  target_link_libraries(${target}_portable PRIVATE
    LINKER:--whole-archive ${WINDLASS_STATIC_YAML} LINKER:--no-whole-archive $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
  target_link_options(${target}_portable PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL
                      LINKER:--disable-new-dtags)
  # What every system with glibc has, and what is part of the C++ runtime of the system, which oneDNN uses.
  install(TARGETS ${target}_portable
          RUNTIME_DEPENDENCIES PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc[+][+]|gcc_s)[.]so"
          RUNTIME DESTINATION bin COMPONENT portable EXCLUDE_FROM_ALL
          LIBRARY DESTINATION lib COMPONENT portable EXCLUDE_FROM_ALL)
endfunction()
