// phase.h: what comes between two steps every so often: rows of its own go forward and backward, then one kernel takes
// each group of parameters that belong together, with their gradients.
//
// A phase is one record, for a kind of adapter (find_phase). When it comes, and with how many rows, is the run's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "method/param_kernel.h"
#include "method/recipe.h"

namespace windlass {

// A number of a report, as its file names it.
struct Figure {
    enum class Kind : uint8_t { real, count, flag };
    std::string_view name;
    Kind kind = Kind::real;
};

struct Phase {
    std::string_view name;  // "refresh": of its schedule, its files and its lines
    std::string_view of;    // "projectors": what it changes, for lines
    const ParamKernel* kernel = nullptr;
    bool (*calls_for)(const TrainedModel& model) = nullptr;  // of find_phase
    // In the order of blocks; empty where set_up was not called.
    ParamTuples (*tuples)(const TrainedModel& model) = nullptr;
    // Says of the model's parameters that this phase changes them (ParamTraining::is_refreshed). After the types in
    // which everything is kept are set.
    void (*set_up)(TrainedModel& model) = nullptr;
    // Why steps of this recipe cannot have it between them; "": they can.
    std::string (*problem)(const Recipe& recipe) = nullptr;
    std::span<const Figure> figures;
    // Of reports, as a line of the log says it; not called where there are none.
    std::string (*summary)(std::span<const GroupReport> reports) = nullptr;
};

// The list (all.cpp).
std::span<const Phase* const> all_phases();
// That the model's adapter calls for; null: none.
const Phase* find_phase(const TrainedModel& model);

}  // namespace windlass
