#include "schedule/trace.h"

#include <map>

#include "base/json.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Events of a trace by process and lane; the rest is what names them.
struct Event {
    std::string name;
    double start_us = 0, end_us = 0;
    Json args;
};
using Lanes = std::map<std::pair<int, size_t>, std::vector<Event>>;

Lanes lanes_of(const Json& trace) {
    Lanes lanes;
    for (const Json& event : trace.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        const double start = event.at("ts"), duration = event.at("dur");
        lanes[{event.at("pid"), event.at("tid")}].push_back(
            {event.at("name"), start, start + duration, event.at("args")});
    }
    return lanes;
}

// One of the last plans, and others evenly before it.
Plan some_plan(size_t index) {
    const std::vector<Plan> plans = plans_on(DeviceKind::fake);
    return plans[plans.size() - 1 - index * plans.size() / 8];
}

class Traced : public testing::TestWithParam<size_t> {
  protected:
    Traced() : plan_(some_plan(GetParam())) {
        set_ = checked(model_, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 32, 2), plan_);
        step_ = simulate(set_.schedules[0], find_machine(real_files(), "rtx4090-desktop"));
        trace_.add("a \"step\"", model_, set_, set_.schedules[0], step_.tasks);
        trace_.add("another", model_, set_, set_.schedules[0], step_.tasks);
    }
    TrainedModel model_ = tiny_model("llama");
    Plan plan_;
    ScheduleSet set_;
    Simulation step_;
    Trace trace_;
};

TEST_P(Traced, EveryTaskHasItsVerb) {
    const Json json = parse_json(trace_.json(), "trace", ExitCode::internal);
    std::map<std::string, int> verbs;
    for (const Json& event : json.at("traceEvents")) {
        if (event.at("ph") == "X") ++verbs[event.at("cat").get<std::string>()];
    }
    std::map<std::string, int> expected;
    for (size_t index = 0; index < step_.tasks.size(); ++index) {
        constexpr std::array<const char*, 4> kNames = {"run", "move", "param", "host"};
        const Task& task = set_.schedules[0].tasks[index];
        const bool is_param = task.verb == Verb::param;
        const std::string name(is_param ? set_.schedules[0].params[at(task.payload)].kernel->name
                                        : kNames[static_cast<size_t>(task.verb)]);
        if (step_.tasks[index].end_s - step_.tasks[index].start_s >= 1e-9) expected[name] += 2;
    }
    EXPECT_EQ(verbs, expected);
}

TEST_P(Traced, LanesAreRowsThatAddUpToTheirBusyTime) {
    const Json json = parse_json(trace_.json(), "trace", ExitCode::internal);
    const Lanes lanes = lanes_of(json);
    for (const int process : {1, 2}) {
        double bytes = 0;
        for (size_t lane = 0; lane < kLaneKinds; ++lane) {
            const auto found = lanes.find({process, lane});
            double busy_us = 0, last_us = 0;
            if (found != lanes.end()) {
                for (const Event& event : found->second) {
                    EXPECT_GE(event.start_us, last_us - 1e-6) << event.name;
                    last_us = event.end_us;
                    busy_us += event.end_us - event.start_us;
                    bytes += event.args.at("bytes").get<double>();
                }
            }
            // Each task is written to the nanosecond.
            const double tasks = found == lanes.end() ? 0 : static_cast<double>(found->second.size());
            EXPECT_NEAR(busy_us, step_.busy_seconds[lane] * 1e6, 1e-3 * tasks + 1e-6);
        }
        const Demand& d = step_.demand;
        EXPECT_EQ(bytes, static_cast<double>(d.memory_bytes + d.up_bytes + d.down_bytes + d.disk_read_bytes +
                                             d.disk_write_bytes));
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, Traced, testing::Range<size_t>(0, 8), testing::PrintToStringParamName());

TEST(Trace, NamesStepsLanesAndTasks) {
    const TrainedModel model = tiny_model("llama");
    const Plan plan{.device = {.kind = DeviceKind::fake, .own_memory = true},
                    .host_threads = 1,
                    .store = true,
                    .common = {.weights = Home::disk,
                               .state = Home::disk,
                               .gradients = Home::disk,
                               .block_input = Home::disk,
                               .recompute = true}};
    const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 32, 2), plan);
    Trace trace;
    const Simulation step = simulate(set.schedules[0], find_machine(real_files(), "rtx4090-desktop"));
    trace.add("a \"step\"", model, set, set.schedules[0], step.tasks);
    const Json json = parse_json(trace.json(), "trace", ExitCode::internal);
    std::set<std::string> names, titles;
    for (const Json& event : json.at("traceEvents")) {
        if (event.at("ph") == "X") names.insert(event.at("name"));
        if (event.at("name") == "process_name" || event.at("name") == "thread_name")
            titles.insert(event.at("args").at("name"));
    }
    for (const char* title : {"a \"step\"", "compute", "host", "up", "down", "disk read", "disk write"})
        EXPECT_TRUE(titles.contains(title)) << title;
    for (const char* name :
         {"forward layers.1 micro 1", "backward+recompute layers.0 micro 0", "read weights layers.1",
          "up weights layers.0", "down gradients layers.1", "write gradients layers.1", "read state layers.0",
          "update layers.0", "write state layers.0", "down activations layers.0.1.out", "norm", "squares layers.0"})
        EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace windlass
