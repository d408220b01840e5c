// advice.h: what the other methods would take within the same budgets, and which of them a run should take: what learns
// most in a step, unless its hours or the wear of the drives are out of all proportion.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "session/session.h"
#include "session/variation.h"

namespace windlass {

struct MethodAdvice {
    std::string method, adapter, weight_storage;  // as in a Variation
    std::string name;                             // "adamw", "adamw, qlora"
    std::optional<Planned> planned;               // nothing: it does not fit; without its schedules
    double steps_factor = 1;  // steps for what AdamW learns in one, as published for tasks with a prompt
};

// It is what the session does.
bool is_of_session(const Session& session, const MethodAdvice& each);

// What is compared: each method for what the session trains, and those with gradients for all parameters and for
// adapters too. Not planned yet; the session's own first, then what changes most for a run that is slow.
std::vector<MethodAdvice> methods_to_compare(const Session& session);
// Plans one for the session's model, machine, budgets, rows and lengths, with any policy. A limit on what the run may
// write is shared by the steps that the method takes. Throws PlanStopped.
void plan_method(const Session& session, const ShouldStop& should_stop, MethodAdvice& method);

// What a run is weighed by.
struct RunCosts {
    int64_t steps = 1000;             // of AdamW
    double endurance_bytes = 600e12;  // that the drives may be written in their life: as 1 TB of a usual drive is rated
};
// As the session has them; what it does not know is as above.
RunCosts run_costs(const Session& session);

// The name of the method to take; empty where none fits. By how much a step learns: AdamW of all parameters, of an
// adapter, methods that use gradients at once, methods without backpropagation. The first that is not dear is taken. A
// method with backpropagation is dear if its run takes more than an hour and more than four times as long as the
// fastest of them, or if it writes more than a hundredth of the drives' endurance. If all are dear, the
// fastest that fits is taken, with backpropagation if any fits.
std::string advised_method(const std::vector<MethodAdvice>& methods, const RunCosts& costs);

// For a refusal: the configured method if a placement that was asked for is left to the planner, and other methods;
// those that fit, and what they take, each as it is found.
void find_others_that_fit(FileSystem& files, const Config& config, KeptPlans kept,
                          const std::function<void(const std::string&)>& found);

// The table of methods: its head and its lines, as wide as the names need, and the line of advice below.
size_t name_width(const std::vector<MethodAdvice>& methods);
std::string methods_head(size_t width);
std::string method_line(const MethodAdvice& method, size_t width);
std::string advice_line(const std::vector<MethodAdvice>& methods, const RunCosts& costs);
// A line, and both, as JSON.
Json method_json(const MethodAdvice& method, const RunCosts& costs);
Json advice_json(const std::vector<MethodAdvice>& methods, const RunCosts& costs);

}  // namespace windlass
