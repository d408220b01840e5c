// recent_steps.h: the last steps of a forward-only run: those whose updates are not yet applied, and those before them
// that updates look back at.
//
// Resident weights are updated in place at their next use, so they lack one step's update at most. Fetched weights lack
// those of all steps since their last write-back. Steps that were not applied do not count. Where updates are stored
// window by window (Merge), all weights lack those of the window until it is over.
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

    // A step was applied: no weight has its update yet.
    void add(const StepParams& step);
    // Replaces the list, oldest first; no weight has the last `deferred` updates yet.
    void recall(std::vector<StepParams> steps, int deferred);
    // Every update is there, in place; everywhere.
    void land_in_place() { in_place_ = 0; }
    void land();

    // History and what is deferred, oldest first.
    std::span<const StepParams> steps() const { return steps_; }
    // How many of the last are still to be applied: to fetched weights, and to those that are updated in place.
    int deferred() const { return deferred_; }
    int deferred_in_place() const { return in_place_; }

  private:
    void forget();

    size_t history_;
    bool together_;
    std::vector<StepParams> steps_;
    int deferred_ = 0, in_place_ = 0;
};

}  // namespace windlass
