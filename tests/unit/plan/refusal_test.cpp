#include "plan/refusal.h"

#include <gmock/gmock.h>

namespace windlass {
namespace {

using testing::Contains;
using testing::Each;
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
    EXPECT_EQ(larger_card.back(), "a machine with 30.15 GiB of device memory");
    EXPECT_EQ(ways_out(40 * kGiB, kGiB, machine).back(), "a machine with 40.20 GiB of host memory");
    EXPECT_EQ(ways_out(40 * kGiB, 30 * kGiB, machine).back(),
              "a machine with 40.20 GiB of host memory and 30.15 GiB of device memory");
}

// What a machine has may not be known.
TEST(Refusal, NamesFlagsIfTheMachineIsNotKnown) {
    EXPECT_THAT(ways_out(kGiB, 30 * kGiB, {}), Contains(StartsWith("--device-memory 30.2GiB")));
}

}  // namespace
}  // namespace windlass
