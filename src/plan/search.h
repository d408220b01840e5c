// search.h: the fastest choice of a space that fits, found by evaluating schedules.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "plan/space.h"

namespace windlass {

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

// Evaluates what it has not seen before.
class Evaluator {
  public:
    explicit Evaluator(std::function<Evaluation(const Choice&)> evaluate) : evaluate_(std::move(evaluate)) {}
    const Evaluation& operator()(const Choice& choice);
    const std::map<Choice, Evaluation>& seen() const { return seen_; }

  private:
    std::function<Evaluation(const Choice&)> evaluate_;
    std::map<Choice, Evaluation> seen_;
};

// Descends knob by knob from several starts, then from what it found with some knobs turned at random (by a fixed
// seed: the same question has the same answer). Nothing when no choice was found that fits.
std::optional<Choice> search(const Space& space, Evaluator& evaluate);

}  // namespace windlass
