#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/rng.h"

namespace windlass {
namespace {

constexpr int kShakes = 4;  // of each rung; one of each pair
constexpr int kShakenKnobs = 4;
constexpr int kRungs = 3;           // of a ladder where there are two
constexpr int kRungsAlone = 6;      // where only one kind of memory differs between choices
constexpr double kFactorMin = 1.1;  // between two of them
constexpr size_t kEachTried = 6;    // values of a knob; of more, every second first, then those around the best
constexpr int kSpeculative = static_cast<int>(UpdateTime::in_backward);

// Fits before fast; among the equally fast what wears the drives less, then what has more slack. Among what does not
// fit, what is nearer to it. No order: of three choices, each within the margin of the next, each can be better than
// the next one.
bool better(const Choice& one, const Choice& other, Evaluator& evaluate, const Limits& limits) {
    const int64_t one_over = against(evaluate.bytes(one), limits).over(),
                  other_over = against(evaluate.bytes(other), limits).over();
    if (one_over != other_over) return one_over < other_over;
    const Evaluation &a = evaluate(one), &b = evaluate(other);
    if (a.seconds > b.seconds * (1 - kWorthwhile) && b.seconds > a.seconds * (1 - kWorthwhile))
        return a.write_bytes != b.write_bytes ? a.write_bytes < b.write_bytes : a.slack > b.slack;
    return a.seconds < b.seconds;
}

// What one descent is held to.
struct DescentLimits {
    Limits fit;     // what it ends at fits these, if it finds anything that does
    Limits most;    // what takes more than these, whatever becomes of it, is not evaluated
    Limits answer;  // what fits these may be the answer, even if this descent passes it by
};

class Descent {
  public:
    Descent(const Space& space, Evaluator& evaluate, const DescentLimits& limits, const Choice& start)
        : space_(space), evaluate_(evaluate), limits_(limits), best_(start) {}

    Choice run() {
        do {
            moved_ = false;
            for (int knob = 0; knob < kKnobs; ++knob) turn(knob);
        } while (moved_);
        return best_;
    }

    // The same, with every value of long knobs in the last sweeps: what halves pass by is little, but not nothing.
    Choice run_finely() {
        run();
        tries_each_ = true;
        return run();
    }

    // No further than to the first choice that fits.
    bool reaches_fit() {
        bool fits = false;
        do {
            moved_ = false;
            for (int knob = 0; knob < kKnobs && !(fits = best_fits()); ++knob) turn(knob);
        } while (moved_ && !fits);
        return fits || best_fits();
    }

  private:
    // Never back to what was the best before: a ring of choices that are each better than the next has an end, too.
    void consider(const Choice& choice) {
        if (left_.contains(choice)) return;
        const Evaluation least = evaluate_.at_least(choice);
        if (!against(least, limits_.most).fits()) return;
        const int64_t over = against(evaluate_.bytes(best_), limits_.fit).over();
        if (over > 0 && against(least, limits_.fit).over() > over) return;
        if (over == 0 && !against(least, limits_.fit).fits() && !against(least, limits_.answer).fits()) return;
        // What a search that fits passes by counts for those who have more; only for them is it timed.
        if (over == 0 && fits(choice, limits_.most) && fits(choice, limits_.answer)) evaluate_(choice);
        if (!better(choice, best_, evaluate_, limits_.fit)) return;
        left_.insert(best_);
        best_ = choice;
        moved_ = true;
    }
    bool fits(const Choice& choice, const Limits& limits) { return against(evaluate_.bytes(choice), limits).fits(); }
    bool best_fits() { return fits(best_, limits_.fit); }
    void turn(int knob) {
        const std::vector<int>& values = space_.values[static_cast<size_t>(knob)];
        if (values.size() > kEachTried && !tries_each_) return turn_by_halves(static_cast<size_t>(knob));
        const Choice from = best_;
        for (const int value : values) consider_with(from, static_cast<size_t>(knob), value);
    }
    // More of such a knob takes more memory and less of something else, so what is best lies near what is good.
    void turn_by_halves(size_t knob) {
        const std::vector<int>& values = space_.values[knob];
        const Choice from = best_;
        size_t stride = 2;
        for (size_t index = 0; index < values.size(); index += stride) consider_with(from, knob, values[index]);
        consider_with(from, knob, values.back());
        while ((stride /= 2) > 0) {
            const auto place = std::ranges::find(values, best_[knob]);
            if (place == values.end()) return;  // a start that this space does not have
            const size_t index = static_cast<size_t>(place - values.begin());
            if (index >= stride) consider_with(from, knob, values[index - stride]);
            if (index + stride < values.size()) consider_with(from, knob, values[index + stride]);
        }
    }
    void consider_with(Choice choice, size_t knob, int value) {
        if (std::exchange(choice[knob], value) != value) consider(choice);
    }
    const Space& space_;
    Evaluator& evaluate_;
    const DescentLimits limits_;
    Choice best_;
    std::set<Choice> left_;
    bool moved_ = false;
    bool tries_each_ = false;
};

struct Range {
    int64_t least = Limits::kNone, most = 0;
    bool is_wide() const { return static_cast<double>(most) > kFactorMin * static_cast<double>(least); }
};

constexpr size_t kFirstStarts = 3;

// From where memory is least, from the middle and from where it is most, with the first, the middle and the last time
// of the update; then with each of the other times.
std::vector<Choice> starts_of(const Space& space) {
    std::vector<Choice> starts = {space.leanest(), space.middle(), space.richest()};
    for (const int update : space.of(Knob::update)) {
        for (Choice start : {space.leanest(), space.middle(), space.richest()}) {
            at(start, Knob::update) = update;
            if (std::ranges::find(starts, start) == starts.end()) starts.push_back(start);
        }
    }
    return starts;
}

// Sizes between the least that a choice needs and the most, each a fixed factor above the one before; the last is
// enough for every choice.
class Ladder {
  public:
    Ladder(const Range& range, int count, int64_t limit) {
        double rung = static_cast<double>(std::max<int64_t>(1, range.least));
        const double factor = std::pow(static_cast<double>(range.most) / rung, 1.0 / count);
        for (int index = 1; range.is_wide() && index < count; ++index)
            rungs_.push_back(static_cast<int64_t>(rung *= factor));
        rungs_.push_back(Limits::kNone);
        used_ = static_cast<size_t>(
                    std::find_if(rungs_.begin(), rungs_.end() - 1, [&](int64_t each) { return each >= limit; }) -
                    rungs_.begin()) +
                1;
    }
    // Up to the first that is as large as the limit.
    size_t used() const { return used_; }
    int64_t rung(size_t index) const { return rungs_[index]; }
    // The limit for choices that a search up to this rung may evaluate: two rungs more. Larger budgets profit from it.
    int64_t above(size_t index) const { return rungs_[std::min(index + 2, rungs_.size() - 1)]; }

  private:
    std::vector<int64_t> rungs_;
    size_t used_ = 0;
};

class Ladders {
  public:
    Ladders(const Space& space, Evaluator& evaluate, const Limits& limits)
        : space_(space), evaluate_(evaluate), answer_(limits), starts_(starts_of(space)) {
        for (size_t knob = 0; knob < kKnobs; ++knob) {
            if (space.values[knob].size() > 1) open_.push_back(knob);
        }
        const Range memory = range(&Evaluation::memory_bytes), device = range(&Evaluation::device_bytes);
        const bool is_pair = memory.is_wide() && device.is_wide();
        const int count = is_pair ? kRungs : kRungsAlone;
        if (is_pair) shakes_ = 1;
        memory_.emplace(memory, count, limits.memory);
        device_.emplace(device, count, limits.device);
    }

    void climb() {
        std::vector<Choice> below;  // of the row before
        for (size_t i = 0; i < memory_->used(); ++i) {
            std::vector<Choice> row;
            for (size_t j = 0; j < device_->used(); ++j) {
                std::vector<Choice> known;
                if (!row.empty()) known.push_back(row.back());
                if (!below.empty()) known.push_back(below[j]);
                row.push_back(best_of({.fit = {.memory = memory_->rung(i), .device = device_->rung(j)},
                                       .most = {.memory = memory_->above(i), .device = device_->above(j)},
                                       .answer = answer_},
                                      known));
            }
            below = std::move(row);
        }
    }

    // What a search finds that nothing limits.
    Choice best_without_limits() { return best_of({}, {}); }

    // For what only just fits, under limits that no rung has.
    void descend_under(const Limits& limits) {
        for (const Choice& start : starts_) descent({.fit = limits, .answer = limits}, start).run();
    }

  private:
    Range range(int64_t Evaluation::*bytes) {
        Range found;
        for (const Choice& start : starts_) {
            found.least = std::min(found.least, evaluate_.bytes(start).*bytes);
            found.most = std::max(found.most, evaluate_.bytes(start).*bytes);
        }
        return found;
    }

    // From where memory is least, from the middle and from where it is most, and from what is known of less memory.
    // With other times of the update, too, while nothing fits. Room that one knob gives is what others want: so some
    // knobs at random, and down again.
    Choice best_of(const DescentLimits& limits, const std::vector<Choice>& known) {
        std::optional<Choice> best;
        const auto descend = [&](const Choice& start) {
            const Choice end = descent(limits, start).run();
            if (!best || better(end, *best, evaluate_, limits.fit)) best = end;
        };
        for (size_t index = 0; known.empty() && index < starts_.size(); ++index) {
            if (index >= kFirstStarts && against(evaluate_.bytes(*best), limits.fit).fits()) break;
            descend(starts_[index]);
        }
        for (const Choice& start : known) descend(start);
        Random random(1, RandomStream::search);
        for (int shake = 0; !open_.empty() && shake < shakes_; ++shake) {
            Choice start = *best;
            for (int knob = 0; knob < kShakenKnobs; ++knob) {
                const size_t turned = open_[static_cast<size_t>(random.below(open_.size()))];
                const std::vector<int>& values = space_.values[turned];
                start[turned] = values[static_cast<size_t>(random.below(values.size()))];
            }
            descend(start);
        }
        best = descent(limits, *best).run_finely();
        update_otherwise(*best, limits);
        hold(*best, limits);
        return *best;
    }

    // From there with each other time of the update: the best time may differ under limits between two rungs, and each
    // rung knows only one. No search starts from what this finds.
    void update_otherwise(const Choice& best, const DescentLimits& limits) {
        for (const int update : space_.of(Knob::update)) {
            Choice start = best;
            at(start, Knob::update) = update;
            if (start != best) descent(limits, start).run();
        }
    }

    // With updates speculative and the most of them deferred: neither pays without the other, so turning one knob at a
    // time finds neither. What it finds counts, but no search starts from there: everything that is evaluated without
    // this is evaluated with it, too.
    void hold(Choice start, const DescentLimits& limits) {
        const std::vector<int>&updates = space_.of(Knob::update), &deferred = space_.of(Knob::deferred);
        if (deferred.size() < 2 || std::find(updates.begin(), updates.end(), kSpeculative) == updates.end()) return;
        at(start, Knob::update) = kSpeculative;
        at(start, Knob::deferred) = deferred.back();
        descent(limits, start).run();
    }

    Descent descent(const DescentLimits& limits, const Choice& start) {
        return Descent(space_, evaluate_, limits, start);
    }

    Space space_;
    Evaluator& evaluate_;
    const Limits answer_;
    std::vector<size_t> open_;  // knobs that have more than one value
    const std::vector<Choice> starts_;
    std::optional<Ladder> memory_, device_;
    int shakes_ = kShakes;
};

}  // namespace

Evaluation against(Evaluation evaluation, const Limits& limits) {
    const auto over = [](int64_t need, int64_t have) { return std::max<int64_t>(0, need - have); };
    evaluation.memory_over = over(evaluation.memory_bytes, limits.memory);
    evaluation.device_over = over(evaluation.device_bytes, limits.device);
    evaluation.disk_over = over(evaluation.disk_bytes, limits.disk);
    evaluation.write_over = over(evaluation.write_bytes, limits.writes);
    return evaluation;
}

// FNV-1a, a number at a time.
size_t Evaluator::Hash::operator()(const Choice& choice) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const int value : choice) hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3;
    return hash;
}

const Evaluation& Evaluator::operator()(const Choice& choice) {
    const Choice plain = costs_.canonical(choice);
    const auto found = known_.find(plain);
    if (found != known_.end() && found->second.is_timed) return found->second.evaluation;
    return (known_[plain] = {costs_.whole(plain), true}).evaluation;
}

const Evaluation& Evaluator::bytes(const Choice& choice) {
    const Choice plain = costs_.canonical(choice);
    const auto found = known_.find(plain);
    if (found != known_.end()) return found->second.evaluation;
    return costs_.bytes ? (known_[plain] = {costs_.bytes(plain)}).evaluation : (*this)(plain);
}

Evaluation Evaluator::at_least(const Choice& choice) const {
    const Choice plain = costs_.canonical(choice);
    const auto found = known_.find(plain);
    return found != known_.end() ? found->second.evaluation : costs_.least(plain);
}

Evaluator::Evaluations Evaluator::in_order(bool timed_only) const {
    Evaluations evaluations;
    for (const auto& [choice, known] : known_) {
        if (known.is_timed || !timed_only) evaluations.emplace_back(choice, known.evaluation);
    }
    std::ranges::sort(evaluations, {}, &Evaluations::value_type::first);
    return evaluations;
}

// The fastest first. Choices as fast as it are ordered by fewer bytes written, then by more slack. This is an order:
// nearly equal ones are compared with the fastest, not with each other.
std::vector<Choice> fitting(Evaluator& evaluate, const Limits& limits) {
    std::vector<Choice> choices;
    double fastest = 0;
    for (const auto& [choice, evaluation] : evaluate.seen()) {
        if (!against(evaluation, limits).fits()) continue;
        if (choices.empty() || evaluation.seconds < fastest) fastest = evaluation.seconds;
        choices.push_back(choice);
    }
    const auto rank = [&](const Choice& choice) {
        const Evaluation& e = evaluate(choice);
        const bool first = e.seconds <= fastest * (1 + kWorthwhile);
        return first ? std::tuple(0, e.write_bytes, -e.slack, e.seconds) : std::tuple(1, int64_t{0}, 0, e.seconds);
    };
    std::stable_sort(choices.begin(), choices.end(),
                     [&](const Choice& a, const Choice& b) { return rank(a) < rank(b); });
    return choices;
}

namespace {

std::vector<Ladders> ladders_of(const Space& space, Evaluator& evaluate, const Limits& limits) {
    std::vector<Ladders> ladders;
    // Left open, gradient_checkpointing gave plans up to 15 % slower than fixed to true.
    if (const Space lean = space.recomputing(); lean.size() < space.size())
        ladders.emplace_back(lean, evaluate, limits);
    ladders.emplace_back(space, evaluate, limits);
    return ladders;
}

}  // namespace

Evaluation fastest_at_first_sight(const Space& space, Evaluator& evaluate) {
    return evaluate(Descent(space, evaluate, {}, space.richest()).run());
}

Evaluation fastest_without_limits(const Space& space, Evaluator& evaluate) {
    return evaluate(Ladders(space, evaluate, {}).best_without_limits());
}

Choice descend_from(const Choice& start, const Space& space, Evaluator& evaluate, const Limits& limits) {
    return Descent(space, evaluate, {.fit = limits, .answer = limits}, start).run();
}

bool anything_fits(const Space& space, Evaluator& evaluate, const Limits& limits) {
    return std::ranges::any_of(space.of(Knob::update), [&](int update) {
        Choice start = space.leanest();
        at(start, Knob::update) = update;
        return Descent(space, evaluate, {.fit = limits, .answer = limits}, start).reaches_fit();
    });
}

void look_for_nearest(const Space& space, Evaluator& evaluate, const Limits& limits) {
    for (Ladders& each : ladders_of(space, evaluate, limits)) each.descend_under(limits);
}

std::vector<Choice> search(const Space& space, Evaluator& evaluate, const Limits& limits) {
    std::vector<Ladders> ladders = ladders_of(space, evaluate, limits);
    for (Ladders& each : ladders) each.climb();
    std::vector<Choice> found = fitting(evaluate, limits);
    if (!found.empty()) return found;
    for (Ladders& each : ladders) each.descend_under(limits);
    return fitting(evaluate, limits);
}

}  // namespace windlass
