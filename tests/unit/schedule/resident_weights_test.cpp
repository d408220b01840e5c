// Weights that stay on a device while the host updates them, in closed form: what each tier holds, and what crosses the
// link.
#include "base/index.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/adapter_fixture.h"

namespace windlass {
namespace {

constexpr const char* kFourLayers = R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
    "max_position_embeddings": 128, "tie_word_embeddings": false})";
constexpr int64_t kInputsOfStep = 2 * 32 * 4 * 4;  // of two micro-batches, as in adapter_bytes_test.cpp

Plan resident_plan(Home state, UpdateTime update = UpdateTime::after_backward) {
    return {.policy = state == Home::disk ? "three_tier" : "host_stream",
            .device = {.kind = DeviceKind::cpu, .own_memory = true},
            .host_threads = 1,
            .store = state == Home::disk,
            .common = {.weights = Home::device, .state = state, .gradients = Home::host, .update = update}};
}

// Of what is trained, and of what is not: every parameter begins at a multiple of the alignment.
int64_t bytes_a_number(const TrainedModel& model, bool trained, int64_t bytes) {
    int64_t sum = 0;
    for (const Param param : model.all_params())
        sum += param.trains() == trained ? aligned_bytes(param.numel(), bytes) : 0;
    return sum;
}

int64_t held_bytes(const ScheduleSet& set, TierKind tier, MemoryTag tag) {
    int64_t sum = 0;
    for (const BufferSpec& buffer : set.persistent)
        sum += set.tiers[at(buffer.tier)].kind == tier && buffer.tag == tag ? buffer.bytes : 0;
    return sum;
}

ScheduleSet lowered(const TrainedModel& model, DType compute, const Plan& plan) {
    return checked(model, make_recipe("adamw", {}), numerics_of(compute, 1, 32, 2), plan);
}

TEST(ResidentWeights, TheDeviceHoldsTwoBytesANumberAndTheHostSixteen) {
    for (const TrainedModel& model : {model_of(kFourLayers), with_lora(kFourLayers, 16)}) {
        const ScheduleSet set = lowered(model, DType::bf16, resident_plan(Home::host));
        const int64_t two = bytes_a_number(model, true, 2), four = bytes_a_number(model, true, 4);
        EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::weights), two + bytes_a_number(model, false, 2));
        EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::low_halves), 0);
        EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::state), 0);
        EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::gradients), set.buffer({}, set.ids.squares).bytes);
        EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::weights), two);
        EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::low_halves), two);
        EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::state), 2 * four);
        EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::gradients), four);
    }
}

TEST(ResidentWeights, GradientsGoDownAndWeightsComeUpWheneverTheUpdateIs) {
    for (const UpdateTime update : {UpdateTime::after_backward, UpdateTime::in_backward, UpdateTime::next_forward}) {
        for (const TrainedModel& model : {model_of(kFourLayers), with_lora(kFourLayers, 16)}) {
            const ScheduleSet set = lowered(model, DType::bf16, resident_plan(Home::host, update));
            const Demand demand = total_demand(set.schedules[0]);
            EXPECT_EQ(demand.down_bytes, bytes_a_number(model, true, 4));
            EXPECT_EQ(demand.up_bytes, bytes_a_number(model, true, 2) + kInputsOfStep);
        }
    }
}

// In f32 runs join both halves, so both stay, and both come up.
TEST(ResidentWeights, LowHalvesStayBesideThemWhereRunsJoinThem) {
    const TrainedModel model = model_of(kFourLayers);
    const ScheduleSet set = lowered(model, DType::f32, resident_plan(Home::host));
    const int64_t two = bytes_a_number(model, true, 2);
    EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::weights), two);
    EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::low_halves), two);
    int64_t low = 0;  // copied without what pads them
    for (const Param param : model.all_params()) low += 2 * param.numel();
    EXPECT_EQ(total_demand(set.schedules[0]).up_bytes, two + low + kInputsOfStep);
}

int64_t gradient_bytes_of(const TrainedModel& model, GradientFormat format) {
    int64_t sum = 0;
    for (const Param param : model.all_params())
        sum += param.trains() ? gradient_param_bytes(format, param.numel()) : 0;
    return sum;
}

// What crosses the link, or goes to a disk and comes back, and what waits on the host has the narrow form; the sums are
// there for their block alone. Of a matrix that is 2, 1 + 2 / 256 or 1 / 2 + 2 / 64 bytes a number.
TEST(NarrowGradients, TakeWhatTheirFormTakesOnTheLinkAndOnTheDisk) {
    const TrainedModel model = model_of(kFourLayers);
    for (const GradientFormat format : kGradientFormats) {
        Numerics numerics = numerics_of(DType::bf16, 1, 32, 2);
        numerics.gradient_format = format;
        const int64_t bytes = gradient_bytes_of(model, format);
        const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics, resident_plan(Home::host));
        EXPECT_EQ(total_demand(set.schedules[0]).down_bytes, bytes);
        EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::gradients), bytes);
        Plan plan = resident_plan(Home::disk);
        plan.common.gradients = Home::disk;
        const Demand spilled = total_demand(checked(model, make_recipe("adamw", {}), numerics, plan).schedules[0]);
        plan.common.gradients = Home::host;
        const Demand kept = total_demand(checked(model, make_recipe("adamw", {}), numerics, plan).schedules[0]);
        EXPECT_EQ(spilled.disk_write_bytes - kept.disk_write_bytes, bytes);
        EXPECT_EQ(spilled.disk_read_bytes - kept.disk_read_bytes, bytes);
        const int64_t matrix = 512 * 256;
        EXPECT_EQ(gradient_param_bytes(format, matrix), format == GradientFormat::f32    ? 4 * matrix
                                                        : format == GradientFormat::bf16 ? 2 * matrix
                                                        : format == GradientFormat::i8
                                                            ? round_up(matrix + matrix / 256 * 2, kParamAlignment)
                                                            : round_up(matrix / 2 + matrix / 64 * 2, kParamAlignment));
    }
}

// Where weights stay and each micro-batch passes all blocks, sums are rounded where they are.
TEST(NarrowGradients, AreRoundedInPlaceWhereSumsWait) {
    const TrainedModel model = model_of(kFourLayers);
    Numerics numerics = numerics_of(DType::bf16, 1, 32, 2);
    numerics.gradient_format = GradientFormat::i4;
    for (const MicroOrder order : {MicroOrder::micro_batch_first, MicroOrder::layer_first}) {
        const ScheduleSet set =
            checked(model, make_recipe("adamw", {}), numerics, {.policy = "in_memory", .order = order});
        const bool waits = order == MicroOrder::micro_batch_first;
        EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::gradients) - set.buffer({}, set.ids.squares).bytes,
                  gradient_bytes_of(model, waits ? GradientFormat::f32 : GradientFormat::i4));
    }
}

// Every k-th group of chunks goes up without its high halves, which are there, and comes down with them; its gradient
// stays, in its narrow form. A group is a whole block here, of which the blocks k - 1, 2 k - 1 and so on visit.
class VisitingGroups : public testing::TestWithParam<std::tuple<GradientFormat, int, UpdateTime>> {};

TEST_P(VisitingGroups, SendTheirStateUpAndDownAndNoGradient) {
    const auto& [format, k, update] = GetParam();
    const TrainedModel model = model_of(kFourLayers);
    int64_t visiting = 0, others = 0, up = kInputsOfStep, down = 0;
    for (const Param param : model.all_params()) {
        const int64_t numel = param.numel(), gradient = gradient_param_bytes(format, numel);
        const bool visits = (param.spec.block + 1) % k == 0;
        (visits ? visiting : others) += gradient;
        up += visits ? 2 * numel + 8 * numel : aligned_bytes(numel, 2);
        down += visits ? 2 * numel + 2 * numel + 8 * numel : gradient;
    }
    Plan plan = resident_plan(Home::host, update);
    plan.device_groups = k;
    Numerics numerics = numerics_of(DType::bf16, 1, 32, 2);
    numerics.gradient_format = format;
    const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics, plan);
    EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::gradients), others);
    EXPECT_EQ(held_bytes(set, TierKind::device, MemoryTag::gradients),
              visiting + set.buffer({}, set.ids.squares).bytes);
    EXPECT_EQ(total_demand(set.schedules[0]).up_bytes, up);
    EXPECT_EQ(total_demand(set.schedules[0]).down_bytes, down);
}

INSTANTIATE_TEST_SUITE_P(Forms, VisitingGroups,
                         testing::Combine(testing::ValuesIn(kGradientFormats), testing::Values(1, 2, 3, 4),
                                          testing::Values(UpdateTime::after_backward, UpdateTime::in_backward,
                                                          UpdateTime::next_forward)));

// With a store the host holds a block's master on its way alone.
TEST(ResidentWeights, AStoreIsReadForTheUpdateAndForNoPass) {
    const TrainedModel model = model_of(kFourLayers);
    const ScheduleSet set = lowered(model, DType::bf16, resident_plan(Home::disk));
    EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::weights), 0);
    EXPECT_EQ(held_bytes(set, TierKind::host, MemoryTag::state), 0);
    const Demand demand = total_demand(set.schedules[0]);
    int64_t version = 0;
    for (const Param param : model.all_params())
        version += kept_bytes(make_recipe("adamw", {}), param, 0, param.numel());  // each parameter is one chunk
    EXPECT_EQ(demand.disk_read_bytes, version);
    EXPECT_EQ(demand.disk_write_bytes, version);
    EXPECT_EQ(demand.up_bytes, bytes_a_number(model, true, 2) + kInputsOfStep);
}

}  // namespace
}  // namespace windlass
