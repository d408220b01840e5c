#include "tests/place.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace windlass {

const std::string& source_dir() {
    static const std::string path = WINDLASS_SOURCE_DIR;
    return path;
}

const std::string& binary_dir() {
    static const std::string path = WINDLASS_BINARY_DIR;
    return path;
}

std::string shared_data(const std::string& name) {
    return source_dir() + "/../shared/data/" + name;
}

std::optional<MissingData> missing_data(const std::string& folder, std::initializer_list<std::string> names,
                                        bool in_ci) {
    for (const std::string& name : names) {
        if (std::filesystem::exists(folder + "/" + name)) continue;
        const bool some = std::filesystem::exists(folder);
        return MissingData{(some ? folder + "/" + name : folder) + " is not here", some && in_ci};
    }
    return std::nullopt;
}

std::optional<MissingData> missing_shared_data(std::initializer_list<std::string> names) {
    const char* const ci = std::getenv("CI");
    return missing_data(shared_data(""), names, ci != nullptr && std::string_view(ci) == "true");
}

}  // namespace windlass
