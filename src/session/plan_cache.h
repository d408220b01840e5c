// plan_cache.h: find_plan with a memory. Finished plans are kept, by content, in the user's cache folder, so that the
// second `plan`, and `train` after it, search nothing.
//
// An entry holds what the search chose, never schedules: the plan of a kept choice is lowered, checked, simulated and
// held against the budgets again (plan_again), and must take the seconds that the entry names. An entry that is
// damaged, stale or too large is ignored and replaced. Without a folder for it nothing is kept; no failure of the cache
// is an error. Format: docs/format/plan_cache.md. Threads: any number at once, and other processes.
#pragma once

#include <string>

#include "base/file.h"
#include "config/config.h"
#include "session/plan_key.h"

namespace windlass {

struct PlanCache {
    FileSystem* files = nullptr;
    std::string folder;  // empty: nothing is kept
    std::string build;   // of the program that searches; another one's plans are not used
    GivenSizes given;
};

// In the user's cache folder (user_folder.h); if that is empty, a cache that keeps nothing.
PlanCache plan_cache_of(FileSystem& files, const Config& config, const std::string& user_folder);

// As find_plan. A kept plan answers if it fits, and if no budget has become more than a thirty-second larger since it
// was found: a larger budget may have a faster plan, a smaller one has none that is faster than what still fits.
PlanOutcome find_plan(const PlanCache& cache, const SearchQuestion& question);

}  // namespace windlass
