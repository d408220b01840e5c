// libraries.h: the libraries that the program was built from or is linked with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace windlass {

struct Library {
    std::string_view name;
    std::string version;       // that was loaded, if the library says it; else that of the build; may be empty
    std::string_view licence;  // by its SPDX name, if it has one
};

std::vector<Library> libraries();

}  // namespace windlass
