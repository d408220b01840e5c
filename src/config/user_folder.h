// user_folder.h: where Windlass keeps what it can rebuild.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// $XDG_CACHE_HOME/windlass, or .cache/windlass in $HOME or the user's home of the system's list. Empty without any of
// them: the current folder may not be the user's. The cache can be recomputed, so every verb works without it.
std::string user_cache_folder();

// Says that nothing is kept in `folder` (empty: no home folder), why, and which setting names another; once a process
// for each setting.
void note_no_cache(std::string_view folder, std::string_view why, std::string_view setting);

inline constexpr std::string_view kCacheHomeSetting = "XDG_CACHE_HOME=DIR", kCacheDirSetting = "--cache-dir DIR";

}  // namespace windlass
