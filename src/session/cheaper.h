// cheaper.h: settings under which a token would take less time, each planned and simulated within the same budgets.
//
// "A disk twice as fast" is not what one can type. What one can: another format of the state, more or larger
// micro-batches a step, more of the card, bf16 where f32 was computed with, a choice given back to the planner, an
// adapter, another method.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "session/advice.h"
#include "session/cheaper_changes.h"
#include "session/session.h"
#include "session/variation.h"

namespace windlass {

struct Cheaper {
    CheaperSettings settings;
    Planned planned;          // without its schedules
    double step_seconds = 0;  // of as many rounds as it may take
    int64_t tokens = 0;       // of a step
    double gain = 1;          // tokens a second over the session's; of another method: over its speed of learning
    std::string changes;      // what else it means for the run

    double tokens_per_second() const { return static_cast<double>(tokens) / step_seconds; }
};

// Among planned methods: what learns as much at least a tenth sooner, and LoRA over full
// training that takes twice as long as that.
std::vector<Cheaper> cheaper_methods(const Session& session, const std::vector<MethodAdvice>& methods);

// All changes that leave the method as it is.
class CheaperSearch {
  public:
    explicit CheaperSearch(const Session& session);  // which outlives it

    int64_t count() const { return static_cast<int64_t>(variations_.size()); }  // of searches
    // Calls `found`, on the caller's thread, with the best of each kind of change that gains at least a tenth, as soon
    // as all of its kind are planned; and where there are several, with all together, if that is better.
    void run(const SearchOrder& order, const std::function<void(Cheaper&&)>& found);
    // Afterwards, the settings whose search was stopped, or never began.
    const std::vector<std::string>& not_reached() const { return not_reached_; }

  private:
    const Session& session_;
    std::vector<ChangeKind> kinds_;
    std::vector<Variation> variations_;            // of all kinds, one after the other
    std::vector<std::optional<Cheaper>> planned_;  // nothing: it does not fit, or was not reached
    std::vector<std::string> not_reached_;
};

// The head of the table, and two lines for each; the same as JSON.
inline constexpr std::string_view kNothingCheaper = "Faster    no other setting is at least 10 % faster\n";
std::string cheaper_head();
std::string cheaper_lines(const Cheaper& cheaper);
Json cheaper_json(const Cheaper& found);

}  // namespace windlass
