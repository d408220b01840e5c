// step_refresh.h: what a refresh of projected layers costs beside the steps between two of them (step_bench --refresh).
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "method/methods.h"
#include "method/trained_model.h"
#include "run/engine.h"
#include "schedule/lower.h"
#include "step_arguments.h"
#include "step_digest.h"

namespace windlass {

// As a run's defaults are.
inline constexpr int64_t kRefreshSteps = 1000;
inline constexpr int kRefreshIterations = 10;

inline std::vector<ScheduleRequest> requests_of(const Arguments& a) {
    std::vector<ScheduleRequest> requests = {{ScheduleRequest::Kind::train, a.rows, a.length, a.micro}};
    if (a.refresh_rows > 0)
        requests.push_back({.kind = ScheduleRequest::Kind::phase,
                            .rows = a.rows,
                            .sequence_length = a.length,
                            .micro_batches = 2 * static_cast<int>(div_up(a.refresh_rows / 2, a.rows)),
                            .phase = &kProjectorRefresh,
                            .iterations = kRefreshIterations});
    return requests;
}

// Two of them, since the first one warms up, on the rows of a micro-batch over and over.
inline void print_refresh(const Arguments& a, Engine& engine, StepInput input, double step_seconds) {
    if (a.refresh_rows == 0) return;
    const Schedule& schedule = *engine.setup().schedules.find(fmt::format("refresh/{}", a.length));
    const Batch batch = input.micro[0];
    input.micro.assign(static_cast<size_t>(schedule.micro_batches), batch);
    input.params = {.step = a.steps + 2, .head = {.loss_scale = 1.0 / static_cast<double>(batch.count())}};
    StepReport report;
    for (int time = 0; time < 2; ++time) {
        report = engine.run_phase(schedule, input);
        engine.commit_phase(a.steps + 1, "{}");
        ++input.params.step;
    }
    if (a.digest) {
        Digest digest;
        digest.add_weights(engine);
        fmt::print("digest {:016x} of refreshed weights\n", digest.value());
    }
    const auto accepted =
        std::ranges::count_if(report.groups, [](const GroupReport& each) { return each.figures.back() != 0; });
    fmt::print(
        "refresh: {:.1f} s, {} rows of {} tokens, {} layers of which {} were fitted anew, {} iterations at most; one "
        "before each {} steps of {:.2f} s: {:.2f} % of a run\n",
        report.seconds, schedule.micro_batches * a.rows, a.length, report.groups.size(), accepted, kRefreshIterations,
        kRefreshSteps, step_seconds, 100 * report.seconds / (report.seconds + kRefreshSteps * step_seconds));
}

}  // namespace windlass
