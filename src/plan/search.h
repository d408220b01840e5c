// search.h: the fastest choice of a space that fits, found by evaluating schedules.
//
// More of anything never makes the answer slower. Searching under a budget is a matter of luck, so what is searched
// must not depend on it: there is a fixed ladder of sizes for each kind of memory, and for every pair of rungs a
// search, which knows only of the smaller pairs. The answer under a budget is the best fitting choice of all that were
// evaluated on the rungs up to the first that is as large as the budget. A larger budget has these rungs and more, and
// what fits the smaller fits it, too.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/space.h"

namespace windlass {

inline constexpr double kWorthwhile = 1e-3;  // a gain below this share of a step does not count

// What a choice costs.
struct Evaluation {
    double seconds = 0;  // of a step, with the share of redone updates that is to be expected
    int64_t memory_over = 0, device_over = 0, disk_over = 0, write_over = 0;  // bytes above the budgets
    int64_t memory_bytes = 0, device_bytes = 0, disk_bytes = 0;
    int64_t write_bytes = 0;  // to disk, in a step
    int slack = 0;            // what is under way early: lanes are not as punctual as a simulation

    int64_t over() const { return memory_over + device_over + disk_over + write_over; }
    bool fits() const { return over() == 0; }
};

// What may be used, in bytes.
struct Limits {
    static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    int64_t memory = kNone, device = kNone, disk = kNone, writes = kNone;  // of the host, of the device; of a step
};

// The same with the bytes that it is over these limits.
Evaluation against(Evaluation evaluation, const Limits& limits);

// What a choice costs, found as far as somebody asks: a choice that does not fit is never timed.
struct ChoiceCosts {
    std::function<Evaluation(const Choice&)> whole;
    std::function<Evaluation(const Choice&)> bytes = nullptr;  // all but the seconds; null: not cheaper
    // Cheap, and no more bytes than the choice takes.
    std::function<Evaluation(const Choice&)> least = [](const Choice&) { return Evaluation{}; };
    // Makes choices that are the same plan equal.
    std::function<Choice(const Choice&)> canonical = [](const Choice& choice) { return choice; };
};

// Evaluates what it has not seen before; against no limits.
class Evaluator {
  public:
    using Evaluate = std::function<Evaluation(const Choice&)>;
    explicit Evaluator(ChoiceCosts costs) : costs_(std::move(costs)) {}
    explicit Evaluator(Evaluate whole) : Evaluator(ChoiceCosts{.whole = std::move(whole)}) {}

    const Evaluation& operator()(const Choice& choice);
    // Without its seconds, unless they are known.
    const Evaluation& bytes(const Choice& choice);
    // What is known without evaluating it.
    Evaluation at_least(const Choice& choice) const;
    using Evaluations = std::vector<std::pair<Choice, Evaluation>>;
    // Choices that were timed, in order.
    Evaluations seen() const { return in_order(/*timed_only=*/true); }
    // Choices whose bytes are known, timed or not, in order; and how many there are.
    Evaluations sized() const { return in_order(/*timed_only=*/false); }
    size_t sized_count() const { return known_.size(); }

  private:
    struct Known {
        Evaluation evaluation;
        bool is_timed = false;
    };
    struct Hash {
        size_t operator()(const Choice& choice) const;
    };
    Evaluations in_order(bool timed_only) const;

    ChoiceCosts costs_;
    std::unordered_map<Choice, Known, Hash> known_;
};

// Descends knob by knob from several starts and from what smaller rungs found, then from what it found with some knobs
// turned at random (by a fixed seed: the same question has the same answer). What fits the limits, the best first;
// among the equally fast what wears the drives less, then what has more slack. Empty where nothing was found that fits.
// What may be left to the search may be fixed, too: a space in which values are kept or computed again holds one in
// which all are computed again, and is never searched with less success. The evaluator is to be fresh: all that it has
// seen counts.
std::vector<Choice> search(const Space& space, Evaluator& evaluate, const Limits& limits);

// The fastest that there is, whatever it takes. At first sight: one descent from where memory is most. It may miss the
// best by some: only where it is far slower than what is known may the space be left alone.
Evaluation fastest_at_first_sight(const Space& space, Evaluator& evaluate);
// As on one rung of the ladder. Where it fits limits, no ladder need be climbed for speed alone. That more is not
// slower then rests on this search being no worse than the others, which the planner's tests compare.
Evaluation fastest_without_limits(const Space& space, Evaluator& evaluate);
// What one descent from there ends at.
Choice descend_from(const Choice& start, const Space& space, Evaluator& evaluate, const Limits& limits);
// Of all that the evaluator has seen: what fits, in the order of search().
std::vector<Choice> fitting(Evaluator& evaluate, const Limits& limits);

// Whether descents from where memory is least find a choice that fits. If none does, the nearest has been evaluated.
bool anything_fits(const Space& space, Evaluator& evaluate, const Limits& limits);

// Evaluates what comes nearest to limits that nothing fits.
void look_for_nearest(const Space& space, Evaluator& evaluate, const Limits& limits);

}  // namespace windlass
