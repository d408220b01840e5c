#include "plan/refusal.h"

#include <gmock/gmock.h>

#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kGiB = int64_t{1} << 30;

// With a card: of a plan that is refused because it needs this much host memory and device memory.
std::vector<std::string> ways_out(int64_t memory, int64_t device, const Machine& machine) {
    const Limits limits{.memory = 16 * kGiB, .device = 12 * kGiB};
    const Evaluation need =
        against({.memory_bytes = memory, .device_bytes = device, .disk_bytes = 0, .write_bytes = 0}, limits);
    const PlanRequest request{.device = {.kind = DeviceKind::cuda, .own_memory = true},
                              .budgets = {.ram = limits.memory, .device = limits.device}};
    return nearest_fit(std::vector<Refused>{{.policy = "host_stream", .evaluation = need}}, request, machine).ways_out;
}

TEST(Refusal, NamesFlagsForWhatTheMachineHasAndElseAMachine) {
    const Machine machine{.memory_bytes = 32 * kGiB, .device_memory_bytes = 24 * kGiB};
    EXPECT_THAT(ways_out(20 * kGiB, kGiB, machine), Contains(StartsWith("--ram 20.1GiB")));
    EXPECT_THAT(ways_out(kGiB, 20 * kGiB, machine), Contains(StartsWith("--device-memory 20.1GiB")));

    const std::vector<std::string> larger_card = ways_out(kGiB, 30 * kGiB, machine);
    EXPECT_THAT(larger_card, Each(Not(HasSubstr("--device-memory"))));
    EXPECT_EQ(larger_card.back(), "a machine with 30.15 GiB of free device memory");
    EXPECT_EQ(ways_out(40 * kGiB, kGiB, machine).back(), "a machine with 40.20 GiB of free host memory");
    EXPECT_EQ(ways_out(40 * kGiB, 30 * kGiB, machine).back(),
              "a machine with 40.20 GiB of free host memory and 30.15 GiB of free device memory");
}

// What a machine has may not be known.
TEST(Refusal, NamesFlagsIfTheMachineIsNotKnown) {
    EXPECT_THAT(ways_out(kGiB, 30 * kGiB, {}), Contains(StartsWith("--device-memory 30.2GiB")));
}

// Of steps of a tiny model that do not fit.
class SmallerSteps : public testing::Test {
  protected:
    const Recipe recipe_ = make_recipe("adamw", {.state_format = StateFormat::fp32});
    const TrainedModel model_ = stored_as(tiny_model("llama"), recipe_);
    PlanRequest request_{.policy = "in_memory"};

    // Of a step of n rows of 64 tokens, with this share of the bytes that the weights and the optimizer's state take.
    std::vector<std::string> ways_out(double share, int64_t rows) {
        const Numerics numerics = numerics_of(DType::f32, rows, 64, 1);
        request_.schedules.insert(request_.schedules.begin(), train_request(numerics));
        const auto persistent = persistent_bytes(model_, recipe_, numerics, {}, request_.schedules);
        request_.budgets.ram = static_cast<int64_t>(share * static_cast<double>(persistent[slot(TierKind::device)]));
        const PlanOutcome outcome = find_plan(model_, recipe_, numerics, {}, request_);
        request_.schedules.clear();
        return std::get<NoFit>(outcome).ways_out;
    }
};

constexpr const char* kSmallerBatch = "a smaller --per-device-train-batch-size or --max-length";

// A smaller step takes no less than what outlives it.
TEST_F(SmallerSteps, AreNoWayOutIfWeightsAndStateAloneDoNotFit) {
    EXPECT_THAT(ways_out(1.05, 8), Contains(kSmallerBatch));
    EXPECT_THAT(ways_out(0.95, 8), ElementsAre(StartsWith("--ram ")));
}

TEST_F(SmallerSteps, AreShorterIfTheyHaveOneRow) {
    EXPECT_THAT(ways_out(1.01, 1), Contains("a smaller --max-length"));
    EXPECT_THAT(ways_out(1.01, 2), Contains(kSmallerBatch));
    request_.example_rows = 2;
    EXPECT_THAT(ways_out(1.01, 2), Contains("a smaller --max-length"));
}

// The cached keys and values of texts outlive steps, and are what shorter texts save.
TEST_F(SmallerSteps, MayWriteNoTexts) {
    const ScheduleRequest texts{.kind = ScheduleRequest::Kind::decode, .cache_capacity = 1 << 16};
    request_.schedules = {texts};
    EXPECT_THAT(ways_out(0.95, 8), Contains("no --sample-prompts"));
    request_.schedules = {texts};
    EXPECT_THAT(ways_out(0.001, 8), ElementsAre(StartsWith("--ram ")));
}

// The store holds what is trained, however small the step.
TEST_F(SmallerSteps, AreNoWayOutOfAStoreThatIsTooLarge) {
    request_.policy = "three_tier";
    request_.budgets.disk = 1000;
    EXPECT_THAT(ways_out(10, 8), ElementsAre(StartsWith("--ssd-dir DIR ")));
}

// Each step writes what is trained to the store.
TEST_F(SmallerSteps, AreNoWayOutOfTooManyWrites) {
    request_.policy = "three_tier";
    request_.budgets.disk = kPlenty;
    request_.budgets.step_disk_writes = 1000;
    EXPECT_THAT(ways_out(10, 8), ElementsAre("a larger --ssd-writes, or fewer steps"));
}

// Several budgets may be too small at once.
TEST_F(SmallerSteps, LeaveAWayOutIfTheyAreNone) {
    request_.policy = "three_tier";
    request_.budgets.disk = 1000;
    EXPECT_THAT(ways_out(0.001, 8),
                ElementsAre(testing::AllOf(StartsWith("--ram "), HasSubstr(" --ssd-dir DIR --ssd-space "))));
}

}  // namespace
}  // namespace windlass
