#include "tests/place.h"

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

}  // namespace windlass
