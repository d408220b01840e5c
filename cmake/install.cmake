# install.cmake: what `cmake --install` and the packages contain (docs/dev/packaging.md).
#
#   windlass_install(<target>)     rules for the program and its pages; call it when all that the program links is known
#
# Components: Unspecified, which is the program for machines that have its libraries; manual, its pages; portable, which
# only its name installs, the program with its libraries in ../lib.
include(GNUInstallDirs)

function(windlass_install target)
  install(TARGETS ${target} RUNTIME)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/security.md TYPE DOC COMPONENT manual)
  foreach(folder guide format results)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/${folder} TYPE DOC COMPONENT manual)
  endforeach()
  foreach(example chat plans quickstart)  # the others need data that they do not bring
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${example} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT manual
            PATTERN runs EXCLUDE)
  endforeach()
  install(CODE "set(WINDLASS_SOURCE ${PROJECT_SOURCE_DIR})
set(WINDLASS_PROGRAM $<TARGET_FILE:${target}>)
set(WINDLASS_GENERATED ${CMAKE_BINARY_DIR}/generated/install)
set(WINDLASS_MAN ${CMAKE_INSTALL_MANDIR})
set(WINDLASS_DATA ${CMAKE_INSTALL_DATADIR})
set(WINDLASS_DOC ${CMAKE_INSTALL_DOCDIR})" COMPONENT manual)
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_generated.cmake COMPONENT manual)
  find_library(WINDLASS_STATIC_YAML libyaml-cpp.a)
  if(WINDLASS_STATIC_YAML)
    windlass_install_portable(${target})
  endif()
endfunction()

# The same objects, linked with libstdc++, fmt and yaml-cpp inside; the other libraries are found in ../lib, whichever
# library asks for them: RPATH, not RUNPATH, holds for oneDNN's own libraries too. OpenMP's runtime stays shared, since
# oneDNN uses the same; so does libgcc, which unwinds through both.
function(windlass_install_portable target)
  add_executable(${target}_portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}>
                 ${PROJECT_SOURCE_DIR}/cmake/portable.cpp)
  set_target_properties(${target}_portable PROPERTIES OUTPUT_NAME ${target} INSTALL_RPATH "$ORIGIN/../lib"
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable LINKER_LANGUAGE CXX)
  target_link_libraries(${target}_portable PRIVATE
    -Wl,--whole-archive ${WINDLASS_STATIC_YAML} -Wl,--no-whole-archive $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
  target_link_options(${target}_portable PRIVATE -static-libstdc++ LINKER:--as-needed LINKER:--exclude-libs,ALL
                      LINKER:--disable-new-dtags)
  # What every system with glibc has, and what is part of the C++ runtime of the system, which oneDNN uses.
  install(TARGETS ${target}_portable
          RUNTIME_DEPENDENCIES PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc[+][+]|gcc_s)[.]so"
          RUNTIME DESTINATION bin COMPONENT portable EXCLUDE_FROM_ALL
          LIBRARY DESTINATION lib COMPONENT portable EXCLUDE_FROM_ALL)
endfunction()

# `cpack -G DEB`: the program for Debian, which takes its libraries from there.
set(CPACK_PACKAGE_NAME windlass)
set(CPACK_PACKAGE_VENDOR "Windlass developers")
set(CPACK_PACKAGE_CONTACT "Windlass developers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fine-tunes language models that are bigger than memory")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Windlass spreads a run over GPU memory, RAM and NVMe drives, and says
before the first step whether it fits and how long it takes. It trains all
parameters or adapters, also without a backward pass, and reads and writes
Hugging Face model folders.")
include(CPack)
