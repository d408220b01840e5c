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
