// estimate.h: what a plan costs for a deep model, without lowering all of it: fill, a few layers, drain.
//
// Layers are alike. Of a training step a model of few layers is lowered and placed, and the tasks of some of its layers
// are repeated to the depth that is asked for (layer_repeat.h): that is simulated. Of other schedules two short models
// are; the difference between them is what a layer adds. Nothing is proven: a plan that is taken is lowered whole and
// checked. Bytes that are moved come out exactly; seconds are mostly exact, and up to a twentieth off where updates end
// many layers after the passes; the gaps between buffers are those of the short model. A step takes no less than all of
// any lane's work.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "method/recipe.h"
#include "plan/layer_repeat.h"
#include "schedule/lower.h"
#include "schedule/machine.h"
#include "schedule/pass_bytes.h"
#include "schedule/plan.h"

namespace windlass {

// What a search compares plans by; of the first request's schedule where it is of one schedule.
struct Estimate {
    double seconds = 0;
    double redo_seconds = 0;  // of the schedule that repeats speculative updates; 0 without it
    std::array<double, kLaneKinds> busy_seconds{};
    std::array<double, kLaneKinds> alone_seconds{};
    Demand demand;
    std::array<int64_t, kTierKinds> arena_bytes{};  // the peak of each kind of tier, over all schedules
    int64_t activation_file_bytes = 0;

    int64_t memory_bytes() const;  // of all tiers
};

// Estimates of many plans of one model. What they have in common is found once: short models, and schedules
// that depend on a part of the plan only. Outlived by what it is made with.
class Estimator {
  public:
    Estimator(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
              std::vector<ScheduleRequest> requests);

    // Makes the plan of a model with `blocks` blocks (layers, embedding and head).
    using PlanFor = std::function<Plan(int blocks)>;

    // Of the buffers of one schedule, by kind of tier: bytes that are alive at one time, and the gaps between them.
    struct Peaks {
        std::array<int64_t, kTierKinds> alive_bytes{}, gap_bytes{};
    };
    struct PlannedModel {
        const TrainedModel* model = nullptr;
        Plan plan;
    };
    // One that is lowered and not yet timed: the bytes of persistent buffers as arena, and each schedule's peaks.
    struct Lowered : PlannedModel {
        ScheduleSet set;  // the step's schedule
        Estimate estimate;
        std::vector<Peaks> peaks;
    };
    // All of an estimate but its seconds.
    struct Sized {
        Estimate estimate;
        Lowered deep;                       // the whole model if neither `repeat` nor `few` is there
        std::optional<LayerRepeat> repeat;  // of layers of `deep`
        std::optional<Lowered> few;         // not lowered where there is a repeat
        double steps = 0;                   // from `few` to the whole: 1 is as many layers as `deep` has more
    };

    // `period`: layers that are this far apart are treated alike. A model that is not much deeper than the short ones
    // is lowered as it is, and the estimate is exact. `time` may be called once for each `size`, or not at all.
    Sized size(const PlanFor& plan_for, int period = 1);
    Estimate time(Sized sized);
    // Of the whole model: what outlives the schedules of a plan.
    const std::array<int64_t, kTierKinds>& persistent_bytes(const Plan& plan);
    // With what passes take: no more than the whole arena, and cheap.
    std::array<int64_t, kTierKinds> least_bytes(const Plan& plan);
    Estimate operator()(const PlanFor& plan_for, int period = 1) { return time(size(plan_for, period)); }

  private:
    Lowered lower_sized(const TrainedModel& model, Plan plan);
    Sized size_whole(Plan plan);
    // Nothing where the layers' tasks cannot be repeated.
    std::optional<Sized> size_repeated(const PlanFor& plan_for, const Plan& whole, int period);
    Sized size_by_two(const PlanFor& plan_for, Plan whole, int period);
    void add_transients(Sized& sized);
    void time(Lowered& lowered);
    double redo_seconds(const PlannedModel& planned);
    // A schedule that is not the step's; the seconds of one that repeats updates.
    struct OtherSchedule {
        Peaks peaks;
        double seconds = 0;
    };
    OtherSchedule other_schedule(const PlannedModel& planned, const ScheduleRequest& request);
    static Peaks peaks_of(const ScheduleSet& set);  // of its first schedule
    const TrainedModel& short_model(int layers);

    const TrainedModel& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const Machine& machine_;
    std::vector<ScheduleRequest> requests_;
    PassBytes passes_;
    const int layer_chunks_;                                                   // that updates move, of the first layer
    std::map<int, TrainedModel> short_models_;                                 // by layers
    std::map<std::string, OtherSchedule> known_;                               // by all that they depend on
    std::map<std::string, std::array<int64_t, kTierKinds>> known_persistent_;  // the same
};

// Of one plan.
Estimate estimate(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const Estimator::PlanFor& plan_for, const std::vector<ScheduleRequest>& requests, int period = 1);

}  // namespace windlass
