// plan_key.h: a question to the planner, and a number for all that its answer follows from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/planner.h"

namespace windlass {

// What find_plan is asked, and the options that the recipe was made with: a recipe itself cannot be written down.
struct SearchQuestion {
    const TrainedModel& model;
    const Recipe& recipe;
    const MethodOptions& options;
    const Numerics& numerics;
    const Machine& machine;
    const PlanRequest& request;
    std::optional<Rival> rival = std::nullopt;
};

// Which budgets the user gave as a size. The others are shares of free space, which differs a little each time.
struct GivenSizes {
    bool ram = false, device = false, disk = false;
};

// XXH3 of the program's build, the model's shapes and types, the method, the numerics, the rates of the kernels that
// the model calls, and the request. A given size counts exactly, a share by its order of magnitude (half a power of
// two). Three things do not count: the memory that the process has taken so far, where a search may begin, and when it
// must stop. Nothing if `build` is empty: then it is unknown whether this program searches as the last one did.
std::optional<uint64_t> plan_key(const SearchQuestion& question, const GivenSizes& given, std::string_view build);

// The linker's id of this program's build, in hex; empty if it has none.
std::string build_id();

}  // namespace windlass
