#include "train/trace_writer.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Steps of a schedule whose tasks take a microsecond each, one after the other.
class TraceWriting : public testing::Test {
  protected:
    TraceWriting() {
        setup_.model = tiny_model("llama");
        setup_.schedules = checked(setup_.model, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 32, 1), {});
    }
    // Titles of the steps that the file has after so many steps.
    std::vector<std::string> titles(std::vector<int64_t> asked, int64_t steps, bool finished = true) {
        const std::string path = folder_ / "trace.json";
        TraceWriter writer(real_files(), {path, std::move(asked)});
        const Schedule& schedule = setup_.schedules.schedules[0];
        for (int64_t step = 1; step <= steps; ++step) {
            StepReport report;
            for (size_t task = 0; task < schedule.tasks.size(); ++task) {
                const int64_t start = step * 1000000 + static_cast<int64_t>(task) * 1000;
                report.tasks.push_back({start, start + 1000});
            }
            writer.note(step, setup_, schedule, report);
        }
        if (finished) writer.finish();
        std::vector<std::string> found;
        json_ = parse_json(read_text(real_files(), path, 1 << 24), path, ExitCode::internal);
        for (const Json& event : json_.at("traceEvents")) {
            if (event.at("name") == "process_name") found.push_back(event.at("args").at("name"));
        }
        return found;
    }
    TempFolder folder_;
    EngineSetup setup_;
    Json json_;
};

using testing::ElementsAre;

TEST_F(TraceWriting, ShowsTheFirstAndTheLastStep) {
    EXPECT_THAT(titles({}, 5), ElementsAre("step 1, train/32", "step 5, train/32"));
    EXPECT_THAT(titles({}, 1), ElementsAre("step 1, train/32"));
    EXPECT_THAT(titles({}, 5, false), ElementsAre("step 1, train/32"));  // killed
}

TEST_F(TraceWriting, ShowsTheStepsThatAreAskedFor) {
    EXPECT_THAT(titles({2, 4, 9}, 5), ElementsAre("step 2, train/32", "step 4, train/32"));
}

// Each step begins at zero.
TEST_F(TraceWriting, TimesAreThoseOfTheTasks) {
    titles({3}, 3);
    double next = 0;
    for (const Json& event : json_.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        EXPECT_EQ(event.at("ts").get<double>(), next++);
        EXPECT_EQ(event.at("dur").get<double>(), 1);
    }
    EXPECT_EQ(next, static_cast<double>(setup_.schedules.schedules[0].tasks.size()));
}

}  // namespace
}  // namespace windlass
