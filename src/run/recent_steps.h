// recent_steps.h: the last steps of a forward-only run: those whose updates are not yet applied, and those before them
// that updates look back at.
//
// Weights that are computed with where they live have a step's update as soon as they arrive next: "in place". Others
// are fetched: updates are applied to what was fetched, and the weights have them when they have gone home. So those
// are behind by as many steps as have passed since, and the former by one at most. Steps that were not applied are
// none. Where weights are folded window by window (Folding), all of them are behind until the window is over.
//
// Threads: a schedule that runs may read it from every lane; it is changed between schedules only.
#pragma once

#include <span>
#include <vector>

#include "method/step.h"

namespace windlass {

class RecentSteps {
  public:
    // `history`: steps before it that a step's update looks back at. `together`: updates are in no weights before they
    // land all at once, wherever weights live.
    RecentSteps(int history, bool together) : history_(static_cast<size_t>(history)), together_(together) {}

    // A step was applied: nobody has its update yet.
    void add(const StepParams& step);
    // These instead, oldest first, of which nobody has the last `pending`.
    void recall(std::vector<StepParams> steps, int pending);
    // Every update is there, in place; everywhere.
    void land_in_place() { in_place_ = 0; }
    void land();

    // History and what is pending, oldest first.
    std::span<const StepParams> steps() const { return steps_; }
    // Of those, the last that are to be applied: to what is fetched, and to what is updated in place.
    int pending() const { return pending_; }
    int pending_in_place() const { return in_place_; }

  private:
    void forget();

    size_t history_;
    bool together_;
    std::vector<StepParams> steps_;
    int pending_ = 0, in_place_ = 0;
};

}  // namespace windlass
