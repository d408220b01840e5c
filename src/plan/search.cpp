#include "plan/search.h"

#include <algorithm>
#include <set>

#include "base/rng.h"

namespace windlass {
namespace {

constexpr int kShakes = 24;
constexpr int kShakenKnobs = 4;
constexpr int64_t kEvaluationsMax = 500;  // it is shaken while there were fewer
constexpr double kWorthwhile = 1e-3;      // a gain below this share of a step is none

// Fits before fast; among the equally fast what wears the drives less, then what has more slack. Among what does not
// fit, what is nearer to it. No order: of three choices, each within the margin of the next, each can be better than
// the next one.
bool better(const Evaluation& a, const Evaluation& b) {
    if (a.over() != b.over()) return a.over() < b.over();
    if (a.seconds > b.seconds * (1 - kWorthwhile) && b.seconds > a.seconds * (1 - kWorthwhile))
        return a.write_bytes != b.write_bytes ? a.write_bytes < b.write_bytes : a.slack > b.slack;
    return a.seconds < b.seconds;
}

class Descent {
  public:
    Descent(const Space& space, Evaluator& evaluate, const Choice& start)
        : space_(space), evaluate_(evaluate), best_(start) {}

    Choice run() {
        do {
            moved_ = false;
            for (int knob = 0; knob < kKnobs; ++knob) turn(knob);
        } while (moved_);
        return best_;
    }

  private:
    // Never back to what was the best before: a ring of choices that are each better than the next has an end, too.
    void consider(const Choice& choice) {
        if (!better(evaluate_(choice), evaluate_(best_)) || left_.contains(choice)) return;
        left_.insert(best_);
        best_ = choice;
        moved_ = true;
    }
    void turn(int knob) {
        const Choice from = best_;
        for (const int value : space_.values[static_cast<size_t>(knob)]) {
            Choice choice = from;
            choice[static_cast<size_t>(knob)] = value;
            if (choice != from) consider(choice);
        }
    }
    const Space& space_;
    Evaluator& evaluate_;
    Choice best_;
    std::set<Choice> left_;
    bool moved_ = false;
};

}  // namespace

const Evaluation& Evaluator::operator()(const Choice& choice) {
    const auto found = seen_.find(choice);
    return found != seen_.end() ? found->second : seen_.emplace(choice, evaluate_(choice)).first->second;
}

std::optional<Choice> search(const Space& space, Evaluator& evaluate) {
    std::optional<Choice> best;
    const auto descend = [&](const Choice& start) {
        const Choice end = Descent(space, evaluate, start).run();
        if (evaluate(end).fits() && (!best || better(evaluate(end), evaluate(*best)))) best = end;
    };
    // From where memory is least, from the middle and from where it is most, for every time of the update.
    for (const int update : space.of(Knob::update)) {
        for (Choice start : {space.leanest(), space.middle(), space.richest()}) {
            at(start, Knob::update) = update;
            descend(start);
        }
    }
    // Room that one knob gives is what others want: some knobs of the best at random, and down again.
    Random random(1, RandomStream::search);
    std::vector<size_t> open;  // knobs that have more than one value
    for (size_t knob = 0; knob < kKnobs; ++knob) {
        if (space.values[knob].size() > 1) open.push_back(knob);
    }
    if (open.empty()) return best;
    for (int shake = 0; best && shake < kShakes && std::ssize(evaluate.seen()) < kEvaluationsMax; ++shake) {
        Choice start = *best;
        for (int knob = 0; knob < kShakenKnobs; ++knob) {
            const size_t turned = open[static_cast<size_t>(random.below(open.size()))];
            const std::vector<int>& values = space.values[turned];
            start[turned] = values[static_cast<size_t>(random.below(values.size()))];
        }
        descend(start);
    }
    return best;
}

}  // namespace windlass
