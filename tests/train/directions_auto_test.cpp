// directions: auto: as many as are nearly free while weights move, and a run that goes on keeps them.
#include <gmock/gmock.h>

#include "format/trajectory.h"
#include "session/session.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::Contains;
using testing::HasSubstr;

class DirectionsAuto : public TrainTest {
  protected:
    // Weights cross a link so slow that it decides, or are where they are computed with.
    Settings streamed(const Settings& changes = {}) const {
        Settings settings = {{"method", "zeroth_order"}, {"directions", "auto"},      {"policy", "host_stream"},
                             {"device", "cpu:emulate"},  {"device_memory", "64 MiB"}, {"link_rate", "200KB"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    Session session(const Settings& settings, const std::optional<RunState>& recorded = {}) {
        return prepare_session(files_, config("planned", settings), recorded);
    }
};

TEST_F(DirectionsAuto, ManyWhereTheLinkDecidesAndTheLeastInMemory) {
    const Session slow = session(streamed());
    EXPECT_GE(slow.method_options.directions, 4);
    EXPECT_EQ(slow.recipe.passes.size(), static_cast<size_t>(slow.method_options.directions));
    EXPECT_THAT(slow.notes, Contains(HasSubstr("directions is")));
    // So many take at most a third longer for each time they were doubled.
    const Session one = session(streamed({{"directions", "1"}}));
    EXPECT_LT(slow.planned.step.seconds / slow.method_options.directions, one.planned.step.seconds / 1.5);
    const Settings memory = {{"method", "zeroth_order"}, {"directions", "auto"}, {"policy", "in_memory"}};
    EXPECT_EQ(session(memory).method_options.directions, 1);
    Settings fzoo = memory;
    fzoo["zo_estimator"] = "fzoo";
    EXPECT_EQ(session(fzoo).method_options.directions, 2);
}

TEST_F(DirectionsAuto, WhatWasAskedForOrChosenBeforeStays) {
    EXPECT_EQ(session(streamed({{"directions", "3"}})).method_options.directions, 3);
    const RunState recorded{.identity = session(streamed({{"directions", "3"}})).identity};
    EXPECT_EQ(recorded.identity.directions, 3);
    EXPECT_EQ(session(streamed(), recorded).method_options.directions, 3);
}

TEST_F(DirectionsAuto, ARunSaysWhatItTookAndGoesOnWithIt) {
    const Settings settings = streamed({{"max_steps", "2"}, {"link_rate", "5MB"}});
    run("chosen", settings);
    const int directions = TrajectoryReader::open(files_, at("chosen/trajectory.wlt")).header().directions;
    ASSERT_GT(directions, 1);
    EXPECT_THAT(bytes("chosen/run.yaml"), HasSubstr("directions: " + std::to_string(directions) + "\n"));
    Settings on = settings;
    on["max_steps"] = "4";
    on["resume"] = "auto";
    on["link_rate"] = "20GB";  // for which it would choose otherwise
    run("chosen", on);
    EXPECT_EQ(TrajectoryReader::open(files_, at("chosen/trajectory.wlt")).count(), 4);
}

}  // namespace
}  // namespace windlass
