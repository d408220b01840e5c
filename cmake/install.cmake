# install.cmake: what `cmake --install` installs (docs/dev/packaging.md).
#
#   windlass_install(<target>)     rules for the program and its pages; call it when all that the program links is known
#
# Components: Unspecified, the program; manual, its pages.
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
endfunction()
