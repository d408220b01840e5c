#include "config/user_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"

namespace windlass {

std::string user_cache_folder() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/windlass";
    const char* home = std::getenv("HOME");
    if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/windlass";
    const passwd* const user = getpwuid(getuid());
    if (user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] == '/')
        return std::string(user->pw_dir) + "/.cache/windlass";
    throw UserError(ExitCode::usage, "XDG_CACHE_HOME", "is not set, nor is HOME, and the user has no home folder")
        .hint("set one of them to a folder of yours");
}

}  // namespace windlass
