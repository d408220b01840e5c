// user_folder.h: where Windlass keeps what it can make again.
#pragma once

#include <string>

namespace windlass {

// $XDG_CACHE_HOME/windlass, or ~/.cache/windlass; "./.windlass-cache" where there is no home.
std::string user_cache_folder();

}  // namespace windlass
