// cheaper.h: settings under which a token would take less time, each planned and simulated within the same budgets.
//
// "A disk twice as fast" is not what one can type. What one can: another format of the state, more or larger
// micro-batches a step, more of the card, a choice given back to the planner, another method.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "session/advice.h"
#include "session/session.h"

namespace windlass {

struct Cheaper {
    std::vector<std::pair<std::string, std::string>> settings;  // key and value, as a user gives them
    Planned planned;                                            // without its schedules
    double step_seconds = 0;                                    // of as many rounds as it may take
    int64_t tokens = 0;                                         // of a step
    double gain = 1;      // tokens a second over the session's; of another method: learnt as much so many times as soon
    std::string changes;  // what else it means for the run

    double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

// The best of each kind of change that gains at least a tenth, the largest gain first; where there are several that
// leave the method as it is, all of these together come before them. `methods`: as compare_methods found them.
std::vector<Cheaper> find_cheaper(const Session& session, const std::vector<MethodAdvice>& methods);

// A table, as below a plan; the same as JSON.
std::string cheaper_text(const std::vector<Cheaper>& found);
Json cheaper_json(const std::vector<Cheaper>& found);

}  // namespace windlass
