# embedded_texts.cmake: compiles a folder of text files into a target (src/base/embedded_text.h), so that the program
# is all that a user needs.
#
#   windlass_embed(<target> <function> <folder> <suffix> <header>)
#
# defines std::span<const EmbeddedText> <function>(), which <header> declares: the files of <folder>, of the project or
# absolute, that end in <suffix>, sorted by name. An edited or added file configures again; the source is written anew only where it changed.
function(windlass_embed target function folder suffix header)
  get_filename_component(at ${folder} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  file(GLOB paths CONFIGURE_DEPENDS ${at}/*${suffix})
  list(SORT paths)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${paths})
  set(entries "")
  file(RELATIVE_PATH from ${PROJECT_SOURCE_DIR} ${at})
  if(IS_ABSOLUTE ${folder})
    set(from ${folder})
  endif()
  foreach(path ${paths})
    get_filename_component(name ${path} NAME_WLE)
    file(READ ${path} text)
    string(APPEND entries "    {\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  set(generated ${CMAKE_BINARY_DIR}/generated/${function}_text.cpp)
  set(source "// Made from ${from} by cmake/embedded_texts.cmake.
#include \"${header}\"

namespace windlass {

std::span<const EmbeddedText> ${function}() {
    static constexpr EmbeddedText kTexts[] = {
${entries}    };
    return kTexts;
}

}  // namespace windlass
")
  file(CONFIGURE OUTPUT ${generated} CONTENT "@source@" @ONLY)
  foreach(library ${target} ${target}_sanitized)
    if(TARGET ${library})
      target_sources(${library} PRIVATE ${generated})
    endif()
  endforeach()
endfunction()
