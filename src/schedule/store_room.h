// store_room.h: what a plan reserves in a working store that is not made yet.
#pragma once

#include <cstdint>

namespace windlass {

// For what only the run knows, some kilobytes: which run it is. A store that exists has it already.
inline constexpr int64_t kStoreMetaRoom = int64_t{1} << 20;

}  // namespace windlass
