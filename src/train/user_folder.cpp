#include "train/user_folder.h"

#include <cstdlib>

namespace windlass {

std::string user_cache_folder() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/windlass";
    const char* home = std::getenv("HOME");
    if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/windlass";
    return "./.windlass-cache";
}

}  // namespace windlass
