#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/rng.h"

namespace windlass {
namespace {

constexpr int kShakes = 24;
constexpr int kShakenKnobs = 4;
constexpr int64_t kEvaluationsMax = 500;  // it is shaken while there were fewer
constexpr double kWorthwhile = 1e-3;      // a gain below this share of a step is none

// Seconds in steps of kWorthwhile. Rounded, rather than compared with a margin: of three choices that are each within
// the margin of the next, each could be better than the next one, and a descent would go round for ever.
int64_t pace(const Evaluation& a) {
    return std::llround(std::log(std::max(a.seconds, 1e-12)) / kWorthwhile);
}

// Fits before fast; among the equally fast what wears the drives less, then what has more slack. Among what does not
// fit, what is nearer to it.
bool better(const Evaluation& a, const Evaluation& b) {
    const auto rank = [](const Evaluation& e) { return std::tuple(e.over(), pace(e), e.write_bytes, -e.slack); };
    return rank(a) < rank(b);
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
    void consider(const Choice& choice) {
        if (!better(evaluate_(choice), evaluate_(best_))) return;
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
