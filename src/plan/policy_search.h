// policy_search.h: one search: over one policy's space under one share of blocks that are whole on the device.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "plan/estimate.h"
#include "plan/planner.h"
#include "plan/refusal.h"
#include "plan/search.h"

namespace windlass {

// What is asked of the planner. It outlives what is made with it.
struct PlanQuestion {
    const TrainedModel& model;
    const Recipe& recipe;
    const Numerics& numerics;
    const Machine& machine;
    const PlanRequest& request;
};

enum class Look : uint8_t { first, last };

struct LookResult {
    std::optional<Planned> planned;                            // faster than the rival
    double seconds = std::numeric_limits<double>::infinity();  // of the fastest step that fits, faster or not
    bool fits_all = true;  // whatever may be faster than the rival with fewer rows has something that fits with these
};

class PolicySearch {
  public:
    // `ranks` and `policy` outlive it.
    PolicySearch(const PlanQuestion& question, const SavedRanks& ranks, const Policy& policy, Space space);
    // Its evaluator calls it.
    PolicySearch(const PolicySearch&) = delete;
    PolicySearch& operator=(const PolicySearch&) = delete;

    bool has_no_disk() const { return store_bytes_ > in_.request.budgets.disk; }
    // Whether even the leanest choice needs more memory than there is.
    bool is_hopeless();
    // Whether steps of fewer rows, shorter rows or shorter texts might fit: what outlives steps does, on the leanest
    // choice, without the cached keys and values of texts.
    bool fits_smaller_steps();
    // Whether it has no choice that fits, as far as descents from the leanest choice tell.
    bool fits_nothing();
    // No choice takes less: each step writes all that is trained to the store, and brings its gradients down where they
    // are not at home on the device.
    double least_seconds() const;
    // For what a refusal says of a policy that was not searched.
    void look_around();

    // The fastest choice that fits. Nothing if it is far slower than `known` at first sight.
    std::optional<Planned> run(const std::optional<Planned>& known);
    // What descents end at that is faster than the rival: from the rival's choice if that is this policy's, else from
    // where memory is least; and from where memory is most, unless a first look's first start says that this gains
    // little. It is lowered whole: an estimate may be off by more than there is to gain.
    LookResult look(const Rival& rival, Look kind);

    // Choices that were lowered.
    int evaluations() const { return static_cast<int>(evaluate_.sized_count()); }
    // Adds all choices that were evaluated.
    void report(std::vector<Refused>& refused) const;

  private:
    // Bytes that each step writes to the store at least; 0 without one.
    double least_written() const;
    bool is_enough(double seconds, const Rival& rival) const;
    // Faster than what is known. `at_sight`: fewer are lowered, and the first that fits is taken.
    std::optional<Planned> fastest_of(const std::vector<Choice>& choices, double known_seconds, bool at_sight = false);
    const Plan& plan(const Choice& choice);
    Evaluation least(const Choice& choice);
    // Of a plan whose arenas take so much; without its seconds.
    Evaluation with_arena(const Plan& plan, const std::array<int64_t, kTierKinds>& bytes) const;
    Evaluation exact(const Planned& planned) const;
    Evaluation sized(const Choice& choice);
    Evaluation timed(const Choice& choice);
    Evaluation evaluation(const Choice& choice, const Estimate& found);

    const PlanQuestion in_;
    const SavedRanks& ranks_;
    const Policy& policy_;
    Space space_;
    int64_t store_bytes_;
    Limits limits_;
    Estimator estimate_;
    Evaluator evaluate_;
    std::set<Choice> lowered_;  // whole
    std::optional<std::pair<Choice, Plan>> last_plan_;
    std::optional<std::pair<Choice, Estimator::Sized>> last_;  // lowered and not yet timed
};

}  // namespace windlass
