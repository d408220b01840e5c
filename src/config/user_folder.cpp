#include "config/user_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "base/log.h"

namespace windlass {

std::string user_cache_folder() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/windlass";
    const char* home = std::getenv("HOME");
    if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/windlass";
    const passwd* const user = getpwuid(getuid());
    if (user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] == '/')
        return std::string(user->pw_dir) + "/.cache/windlass";
    return "";
}

void note_no_cache(std::string_view folder, std::string_view why, std::string_view setting) {
    static std::mutex mutex;
    static std::set<std::string, std::less<>> noted;
    const std::lock_guard lock(mutex);
    if (!noted.emplace(setting).second) return;
    log_warning("{}; what it would keep is computed each time. Try: {}",
                folder.empty() ? "there is no home folder, and so no cache"
                               : fmt::format("the cache {} cannot be used: {}", folder, why),
                setting);
}

}  // namespace windlass
