// Steps of a log with those that they look back at: as many as the window has, of those that were applied, from
// wherever a replay begins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "persist/replay.h"
#include "state/trajectory_settings.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

constexpr int64_t kFirst = 4, kLast = 1'300;  // more than are in memory at once
constexpr int kWindow = 5;

// Every tenth step was not applied, and neither were 400 in a row: further back than is read at once.
bool is_applied(int64_t step) {
    return step % 10 != 0 && (step < 500 || step >= 900);
}

class Logged : public testing::Test {
  protected:
    Logged() {
        model_ = lone_model({LoneParam{.spec = {.name = "w", .shape = {kCount}, .file_dtype = DType::bf16}}});
        set_store(model_, StoreType::as_file);
        TrajectoryHeader header{.method = "zeroth_order",
                                .run_seed = 5,
                                .directions = 1,
                                .eps = 1e-3,
                                .storage = DType::bf16,
                                .stochastic_rounding = true,
                                .first_step = kFirst,
                                .base = describe_base("here", model_, base_masters, 2),
                                .settings = settings("adam")};
        TrajectoryWriter writer = TrajectoryWriter::create(real_files(), path_, header);
        for (int64_t step = kFirst; step <= kLast; ++step)
            writer.append({.step = static_cast<uint32_t>(step),
                           .learning_rate = 1e-3,
                           .applied = is_applied(step),
                           .scalars = {static_cast<float>(step % 7) - 3.3f}});
        writer.sync();
    }
    static std::string settings(const std::string& optimizer) {
        return trajectory_settings({.settings = {{"zo_optimizer", optimizer},
                                                 {"replay_window", fmt::format("{}", kWindow)},
                                                 {"adam_beta1", "0.8"},
                                                 {"adam_beta2", "0.9"},
                                                 {"adam_epsilon", "1e-3"}}},
                                   {});
    }
    static void base_masters(int, int64_t first, std::span<float> out) {
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<float>((first + static_cast<int64_t>(i)) % 61 - 30) / 256;
    }
    TrajectoryReader log() const { return TrajectoryReader::open(real_files(), path_); }
    static std::vector<float> weights(Replay& replay) {
        std::vector<float> out(kCount);
        replay.read(0, 0, out);
        return out;
    }

    static constexpr int64_t kCount = 300;
    const TempFolder folder_;
    const std::string path_ = folder_ / "trajectory.wlt";
    TrainedModel model_;
};

std::vector<int64_t> numbers_of(const LoggedSteps& logged) {
    std::vector<int64_t> numbers;
    for (const StepParams& step : logged.steps) numbers.push_back(step.step);
    return numbers;
}

TEST_F(Logged, StepsComeWithAsMuchHistoryAsTheyLookBackAt) {
    TrajectoryReader log = this->log();
    LoggedSteps found = logged_steps(log, 21, 23);
    EXPECT_EQ(numbers_of(found), std::vector<int64_t>({17, 18, 19, 21, 22, 23}));
    EXPECT_EQ(found.deferred, 2);
    found = logged_steps(log, 21, 21);
    EXPECT_EQ(numbers_of(found), std::vector<int64_t>({17, 18, 19, 21}));
    EXPECT_EQ(found.deferred, 0);
    found = logged_steps(log, kFirst - 1, 11);  // the log's first steps have less
    EXPECT_EQ(numbers_of(found), std::vector<int64_t>({4, 5, 6, 7, 8, 9, 11}));
    EXPECT_EQ(found.deferred, 7);
    found = logged_steps(log, kFirst + 1, kFirst + 1);
    EXPECT_EQ(numbers_of(found), std::vector<int64_t>({4, 5}));
    found = logged_steps(log, 899, 901);
    EXPECT_EQ(numbers_of(found), std::vector<int64_t>({496, 497, 498, 499, 901}));
    EXPECT_EQ(found.deferred, 1);
    EXPECT_EQ(found.steps[0].perturb().rule, noise_of(log.header(), "log").rule);
}

// In one pass, in pieces of a window that no piece holds, and from a step in the middle.
TEST_F(Logged, AReplayLooksBackFromWhereverItBegins) {
    TrajectoryReader log = this->log();
    std::vector<float> expected(kCount);
    base_masters(0, 0, expected);
    std::vector<std::byte> stored(2 * kCount);
    encode_numbers(DType::bf16, expected, stored);
    const LoggedSteps all = logged_steps(log, kFirst - 1, kLast);
    const auto stream = make_stream(DeviceKind::cpu, 1);
    update_by_steps({.param = model_.param(0), .count = kCount, .weights = stored.data()}, all.steps, all.deferred,
                    *stream);
    decode_numbers(DType::bf16, stored, expected);
    Replay whole(log, kFirst, kLast, model_, base_masters, 1);
    EXPECT_EQ(weights(whole), expected);
    for (const int64_t middle : {kFirst, int64_t{7}, int64_t{499}, int64_t{700}, int64_t{1029}}) {
        Replay first(log, kFirst, middle, model_, base_masters, 1);
        Replay second(
            log, middle + 1, kLast, model_,
            [&](int param, int64_t begin, std::span<float> out) { first.read(param, begin, out); }, 1);
        EXPECT_EQ(weights(second), expected) << middle;
    }
}

TEST_F(Logged, RefusesARuleThatNoRunHas) {
    TrajectoryHeader header = log().header();
    const auto problem = [&](const std::map<std::string, std::string>& settings) -> std::string {
        header.settings = trajectory_settings({.settings = settings}, {});
        try {
            noise_of(header, "log");
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(problem({{"zo_optimizer", "momentum"}}), "");
    EXPECT_EQ(problem({{"weight_decay", "0.1"}}), "");
    EXPECT_EQ(noise_of(header, "log").rule, MomentRule());
    EXPECT_THAT(problem({{"zo_optimizer", "lion"}}), testing::HasSubstr("\"lion\" is not one of"));
    EXPECT_THAT(problem({{"zo_optimizer", "adam"}, {"adam_epsilon", "0"}}),
                testing::HasSubstr("divides by adam_epsilon"));
}

}  // namespace
}  // namespace windlass
