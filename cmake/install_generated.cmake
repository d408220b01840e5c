# install_generated.cmake: runs while `cmake --install` does: man pages, completions and texts that the program itself
# prints. install.cmake gives WINDLASS_PROGRAM, the folders, and WINDLASS_GENERATED, a folder of the build for the files.
cmake_policy(VERSION 3.21)
file(REMOVE_RECURSE ${WINDLASS_GENERATED})
file(MAKE_DIRECTORY ${WINDLASS_GENERATED})

# windlass_print(<file> <word>...): what the program prints for these words, into WINDLASS_GENERATED/<file>.
function(windlass_print name)
  execute_process(COMMAND ${WINDLASS_PROGRAM} ${ARGN} OUTPUT_FILE ${WINDLASS_GENERATED}/${name} ERROR_VARIABLE error
                  RESULT_VARIABLE code)
  file(SIZE ${WINDLASS_GENERATED}/${name} bytes)
  if(NOT code STREQUAL 0 OR bytes EQUAL 0)
    list(JOIN ARGN " " words)
    message(FATAL_ERROR "install: windlass ${words} ended with ${code} and printed ${bytes} bytes\n${error}")
  endif()
endfunction()

# windlass_put(<folder> <file>...): files of WINDLASS_GENERATED into a folder below the prefix.
function(windlass_put folder)
  list(TRANSFORM ARGN PREPEND ${WINDLASS_GENERATED}/)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${folder} TYPE FILE FILES ${ARGN})
endfunction()

# windlass_gzip(<file>...): as pages are everywhere; -n: without a time, so that the same text is the same bytes.
function(windlass_gzip)
  list(TRANSFORM ARGN PREPEND ${WINDLASS_GENERATED}/)
  execute_process(COMMAND gzip -9n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

windlass_print(windlass.1 help --man)
set(pages windlass.1)
execute_process(COMMAND ${WINDLASS_PROGRAM} help OUTPUT_VARIABLE help)
string(REGEX REPLACE ".*\nVerbs:\n(.*)" "\\1" verbs "${help}")
string(REGEX REPLACE "\n\n.*" "\n" verbs "${verbs}")
string(REGEX MATCHALL "(^|\n)  [a-z]+ " verbs "${verbs}")
foreach(verb ${verbs})
  string(STRIP "${verb}" verb)
  windlass_print(windlass-${verb}.1 help --man ${verb})
  list(APPEND pages windlass-${verb}.1)
endforeach()
if(NOT "windlass-train.1" IN_LIST pages)
  message(FATAL_ERROR "install: `windlass help` names no verbs where they were looked for")
endif()
windlass_gzip(${pages})
list(TRANSFORM pages APPEND .gz)
windlass_put(${WINDLASS_MAN}/man1 ${pages})

foreach(shell bash zsh fish)
  windlass_print(${shell} completion ${shell})
endforeach()
file(RENAME ${WINDLASS_GENERATED}/bash ${WINDLASS_GENERATED}/windlass)
file(RENAME ${WINDLASS_GENERATED}/zsh ${WINDLASS_GENERATED}/_windlass)
file(RENAME ${WINDLASS_GENERATED}/fish ${WINDLASS_GENERATED}/windlass.fish)
windlass_put(${WINDLASS_DATA}/bash-completion/completions windlass)
windlass_put(${WINDLASS_DATA}/fish/vendor_completions.d windlass.fish)
if(CMAKE_INSTALL_PREFIX MATCHES "/usr$")  # where Debian's zsh looks for those of packages
  windlass_put(${WINDLASS_DATA}/zsh/vendor-completions _windlass)
else()
  windlass_put(${WINDLASS_DATA}/zsh/site-functions _windlass)
endif()

windlass_print(windlass.schema.json config schema)
windlass_put(${WINDLASS_DOC} windlass.schema.json)

# Debian keeps long licences in one place, and wants those of what is compiled in. The libraries that are linked have their
# own packages.
if(CMAKE_INSTALL_PREFIX MATCHES "/usr$")
  set(copyright "Windlass is licensed under the Apache License, version 2.0, which is in /usr/share/common-licenses/Apache-2.0.
The texts that examples/quickstart learns from are in the public domain: examples/quickstart/README.md has their sources.
The program contains code from the headers of the libraries below, and the page's script Chart.js.\n")
  file(GLOB boost RELATIVE /usr/share/doc /usr/share/doc/libboost1.*-dev)  # each release of Debian has another version
  foreach(package libcli11-dev libfmt-dev libjs-chart.js librandom123-dev libyaml-cpp-dev nlohmann-json3-dev ${boost})
    if(EXISTS /usr/share/doc/${package}/copyright)
      file(READ /usr/share/doc/${package}/copyright text)
      string(APPEND copyright "\n======== ${package}\n\n${text}")
    endif()
  endforeach()
  file(WRITE ${WINDLASS_GENERATED}/copyright "${copyright}")
  file(COPY_FILE ${WINDLASS_SOURCE}/CHANGELOG.md ${WINDLASS_GENERATED}/changelog)
  windlass_gzip(changelog)
  windlass_put(${WINDLASS_DOC} copyright changelog.gz)
else()
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${WINDLASS_DOC} TYPE FILE
       FILES ${WINDLASS_SOURCE}/LICENSE ${WINDLASS_SOURCE}/CHANGELOG.md)
endif()
