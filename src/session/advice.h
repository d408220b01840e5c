// advice.h: what the other methods would take within the same budgets, so that nobody does without backpropagation who
// could have it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "session/session.h"

namespace windlass {

struct MethodAdvice {
    std::string method, adapter, weight_storage;  // as in a Variation
    std::string name;                             // "adamw", "adamw, qlora"
    std::optional<Planned> planned;               // nothing: it does not fit; without its schedules
    double steps_factor = 1;  // steps for what AdamW learns in one, as published for tasks with a prompt
};

// It is what the session does.
bool is_of_session(const Session& session, const MethodAdvice& each);

// Each method, and those with gradients over adapters too, planned for the session's model, machine, budgets, rows and
// lengths, with any policy. Not cheap: as long as planning takes, for each.
std::vector<MethodAdvice> compare_methods(const Session& session);
// The name of the one to take: backpropagation where it fits, of all parameters before an adapter's, else what learns
// soonest; empty where nothing fits.
std::string advised_method(const std::vector<MethodAdvice>& methods);

// For a refusal: which methods fit where the configured one does not, and what they take; empty where none does.
std::string others_that_fit(FileSystem& files, const Config& config);

// A table and a line of advice, as below a plan; the same as JSON.
std::string advice_text(const std::vector<MethodAdvice>& methods);
Json advice_json(const std::vector<MethodAdvice>& methods);

}  // namespace windlass
