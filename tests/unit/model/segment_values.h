// segment_values.h: segments run on names: where the values of a program lie, and whether they live long enough.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "model/pass.h"

namespace windlass {

inline constexpr Region kSavedRegions[] = {Region::saved, Region::saved_second, Region::saved_third};
bool is_saved(Region region);

// Where each value of forward lies in the regions that outlive it, as the calls of a segment have it.
using Place = std::pair<Region, int64_t>;
std::map<int, Place> saved_places(const Segment& segment);

std::vector<const SegmentCall*> calls_of(const Segment& segment, DiffMode mode);

// Every forward value that a call reads in work memory must still be where it was written.
void expect_values_live_until_read(const Segment& segment);

}  // namespace windlass
