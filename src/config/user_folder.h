// user_folder.h: where Windlass keeps what it can make again.
#pragma once

#include <string>

namespace windlass {

// $XDG_CACHE_HOME/windlass, or .cache/windlass in $HOME or the user's home of the system's list. UserError(usage) where
// there is none of them: the current folder may be anybody's.
std::string user_cache_folder();

}  // namespace windlass
