// estimate.h: what a plan costs for a deep model, without lowering all of it: fill, a few layers, drain.
//
// Layers are alike, so the cost of a step grows linearly with their number. Two short models are priced; the difference
// between them is what a layer adds. The deeper one is lowered and placed, and without some of its layers
// (layer_cut.h) it has the bytes of the other, which is lowered only to be timed. Nothing is proven: a plan that is
// taken is lowered whole and checked. Bytes that are moved and bytes that are alive come out exactly; seconds within
// 1 % or so; the gaps between buffers, up to a few hundredths of the arena, are those of the deeper short model. A step
// takes no less than all of any lane's work.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "method/recipe.h"
#include "plan/layer_cut.h"
#include "schedule/lower.h"
#include "schedule/machine.h"
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

// full: both short models are simulated. quick, at less cost: of a training step one, and the other's seconds come from
// its schedule, too, without a range of tasks in each pass. Bytes that are moved and alive are the same; seconds are
// mostly within 1 %, and up to a tenth off if updates end many layers after the passes.
enum class Precision : uint8_t { full, quick };

// Estimates of many plans of one model. What they have in common is found once: short models, and schedules
// that depend on a part of the plan only. Outlived by what it is made with.
class Estimator {
  public:
    Estimator(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
              std::vector<ScheduleRequest> requests, Precision precision = Precision::full);

    // Makes the plan of a model with `blocks` blocks (layers, embedding and head).
    using PlanFor = std::function<Plan(int blocks)>;

    // Of the buffers of one schedule, by kind of tier: bytes that are alive at one time, and the gaps between them.
    struct Peaks {
        std::array<int64_t, kTierKinds> alive_bytes{}, gap_bytes{};
    };
    // A model that is lowered and not yet timed: the bytes of persistent buffers as arena, and each schedule's peaks.
    struct Lowered {
        const TrainedModel* model = nullptr;
        Plan plan;
        ScheduleSet set;  // the step's schedule; empty if it was cut out of a deeper model's
        LayerCut cut;
        Estimate estimate;
        std::vector<Peaks> peaks;
    };
    // All of an estimate but its seconds.
    struct Sized {
        Estimate estimate;
        Lowered deep;
        std::optional<Lowered> few;  // nothing where `deep` is the whole model
        double steps = 0;            // from `few` to the whole: 1 is as many layers as `deep` has more
    };

    // `period`: layers that are this far apart are treated alike. A model no deeper than the two short ones together is
    // lowered as it is, and the estimate is exact. `time` may be called once for each `size`, or not at all.
    Sized size(const PlanFor& plan_for, int period = 1);
    Estimate time(Sized sized);
    // Of the whole model: what outlives the schedules of a plan.
    const std::array<int64_t, kTierKinds>& persistent_bytes(const Plan& plan);
    Estimate operator()(const PlanFor& plan_for, int period = 1) { return time(size(plan_for, period)); }

  private:
    Lowered lower_sized(const TrainedModel& model, Plan plan);
    // Of a model that is not as deep, with its plan.
    Lowered cut_from(const Lowered& deep, const TrainedModel& model, Plan plan);
    void add_other_peaks(Lowered& lowered);
    void add_transients(Sized& sized);
    void time(Lowered& lowered);
    void time_few(Lowered& few, Schedule& deep);  // whose schedule has been timed, and is used up
    void time(Lowered& lowered, const Schedule& schedule);
    // A schedule that is not the step's; the seconds of one that repeats updates.
    struct OtherSchedule {
        Peaks peaks;
        double seconds = 0;
    };
    OtherSchedule other_schedule(const Lowered& lowered, const ScheduleRequest& request);
    static Peaks peaks_of(const ScheduleSet& set);  // of its first schedule
    const TrainedModel& short_model(int layers);

    const TrainedModel& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const Machine& machine_;
    std::vector<ScheduleRequest> requests_;
    const Precision precision_;
    std::map<int, TrainedModel> short_models_;                                 // by layers
    std::map<std::string, OtherSchedule> known_;                               // by all that they depend on
    std::map<std::string, std::array<int64_t, kTierKinds>> known_persistent_;  // the same
};

// Of one plan.
Estimate estimate(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const Estimator::PlanFor& plan_for, const std::vector<ScheduleRequest>& requests, int period = 1,
                  Precision precision = Precision::full);

}  // namespace windlass
