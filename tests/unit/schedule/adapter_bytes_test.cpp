// What an adapter takes, in closed form: the base once, 16 bytes for each number of its own, and no byte of the base
// that is written.
#include <algorithm>

#include "base/index.h"
#include "method/methods.h"
#include "model/saved.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/adapter_fixture.h"

namespace windlass {
namespace {

// Every matrix is a multiple of the alignment of 4096 bytes, so that nothing is rounded up but the norms.
constexpr const char* kEven = R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
    "max_position_embeddings": 128, "tie_word_embeddings": false})";
constexpr int64_t kRank = 16, kLayersOfEven = 4;

// By hand, of one layer: q and o are 256 x 256, k and v 128 x 256, three of 512 x 256.
constexpr int64_t kMatrices = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256;
// 34 bytes for 64: 34,816 of q and o, 17,408 of k and v, each in whole blocks of 4096, and 69,632, which are 17 of
// them.
constexpr int64_t kNf4LayerBytes = 2 * 36'864 + 2 * 20'480 + 3 * 69'632;
constexpr int64_t kNormBytes = 2 * 4096;  // two of 512 bytes, each a block of the alignment
constexpr int64_t kTableBytes = 512 * 256 * 2, kLastNormBytes = 4096;
constexpr int64_t kAdapterOfLayer = kRank * (2 * (256 + 256) + 2 * (256 + 128) + 3 * (256 + 512));
constexpr int64_t kAdapterNumbers = kLayersOfEven * kAdapterOfLayer;

int64_t tagged_bytes(const ScheduleSet& set, MemoryTag tag) {
    int64_t bytes = 0;
    for (const BufferSpec& buffer : set.persistent) bytes += buffer.tag == tag ? buffer.bytes : 0;
    return bytes;
}

// The first and the last task that uses a buffer.
std::pair<size_t, size_t> uses_of(const ScheduleSet& set, BufferId buffer) {
    std::vector<size_t> tasks;
    const Schedule& step = set.schedules[0];
    for (size_t task = 0; task < step.tasks.size(); ++task) {
        const std::span<const BufferUse> uses = step.uses_of(step.tasks[task]);
        if (std::ranges::any_of(uses, [&](const BufferUse& use) { return use.buffer == buffer; }))
            tasks.push_back(task);
    }
    return {tasks.front(), tasks.back()};
}

ScheduleSet scheduled(const TrainedModel& model, const Plan& plan) {
    return checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 32, 2), plan);
}

TEST(AdapterBytes, MemoryHoldsTheBaseOnceAndSixteenBytesForANumberOfTheAdapter) {
    const TrainedModel model = with_lora(kEven, kRank);
    const ScheduleSet set = scheduled(model, {.policy = "in_memory"});
    const int64_t base = kLayersOfEven * (2 * kMatrices + kNormBytes) + 2 * kTableBytes + kLastNormBytes;
    EXPECT_EQ(trained_count(model), kAdapterNumbers);
    EXPECT_EQ(tagged_bytes(set, MemoryTag::weights), base + 2 * kAdapterNumbers);
    EXPECT_EQ(tagged_bytes(set, MemoryTag::low_halves), 2 * kAdapterNumbers);
    EXPECT_EQ(tagged_bytes(set, MemoryTag::state), 8 * kAdapterNumbers);
    const int64_t sums = tagged_bytes(set, MemoryTag::gradients) - 4 * kAdapterNumbers;  // a double for each parameter
    EXPECT_EQ(sums, kLayersOfEven * 14 * 8);
    EXPECT_EQ(tagged_bytes(set, MemoryTag::kept), 0);
}

// Of a layer in 4 bits 34 bytes for 64 numbers, and one layer of all is decoded at a time.
TEST(AdapterBytes, ABaseInFourBitsIsThirtyFourBytesForSixtyFourAndOneLayerDecoded) {
    const TrainedModel model = with_lora(kEven, kRank, true);
    const ScheduleSet set = scheduled(model, {.policy = "in_memory"});
    const int64_t base = kLayersOfEven * (kNf4LayerBytes + kNormBytes) + 2 * kTableBytes + kLastNormBytes;
    EXPECT_EQ(tagged_bytes(set, MemoryTag::weights), base + 2 * kAdapterNumbers);
    // In forward and in backward of each layer its matrices in bf16, for all micro-batches; never those of two layers.
    const Schedule& step = set.schedules[0];
    std::vector<std::pair<size_t, size_t>> lives;  // first and last task that uses what is decoded
    for (size_t buffer = 0; buffer < step.buffers.size(); ++buffer) {
        if (step.buffers[buffer].tag != MemoryTag::probes) continue;
        EXPECT_EQ(step.buffers[buffer].bytes, 2 * kMatrices);
        lives.push_back(uses_of(set, static_cast<BufferId>(set.persistent.size() + buffer)));
    }
    EXPECT_EQ(std::ssize(lives), 2 * kLayersOfEven);
    std::ranges::sort(lives);
    for (size_t life = 1; life < lives.size(); ++life) EXPECT_GT(lives[life].first, lives[life - 1].second);
}

Plan host_streamed() {
    return {.policy = "host_stream",
            .device = {.kind = DeviceKind::cpu, .own_memory = true},
            .host_threads = 1,
            .common = {.weights = Home::host, .state = Home::host, .gradients = Home::host}};
}

// A layer's weights on their way, with the adapter's high halves.
int64_t layer_bytes(bool in_4_bits) {
    return (in_4_bits ? kNf4LayerBytes : 2 * kMatrices) + kNormBytes + 2 * kAdapterOfLayer;
}
// Layers in forward and in backward; the table of inputs, which no gradient goes back to, once, and the head once,
// which computes its gradient with its loss.
int64_t streamed_bytes(bool in_4_bits) {
    return 2 * kLayersOfEven * layer_bytes(in_4_bits) + 2 * kTableBytes + kLastNormBytes;
}
// Tokens, targets, positions and beginnings of documents of two micro-batches.
constexpr int64_t kInputBytes = 2 * 32 * 4 * 4;

TEST(AdapterBytes, AStreamedStepSendsTheBaseUpTwiceAndGradientsOfTheAdapterDown) {
    for (const bool in_4_bits : {false, true}) {
        const ScheduleSet set = scheduled(with_lora(kEven, kRank, in_4_bits), host_streamed());
        const Demand demand = total_demand(set.schedules[0]);
        EXPECT_EQ(demand.up_bytes, streamed_bytes(in_4_bits) + kInputBytes) << in_4_bits;
        EXPECT_EQ(demand.down_bytes, 4 * kAdapterNumbers) << in_4_bits;
        EXPECT_EQ(demand.disk_read_bytes + demand.disk_write_bytes, 0);
    }
}

// Chunks of the adapter have 12 bytes for each number: both halves of the master, two moments.
TEST(AdapterBytes, AStepOverDiskReadsTheBaseTwiceAndWritesTheAdaptersChunksAlone) {
    for (const bool in_4_bits : {false, true}) {
        Plan plan = host_streamed();
        plan.policy = "three_tier";
        plan.store = true;
        plan.common.weights = plan.common.state = Home::disk;
        const ScheduleSet set = scheduled(with_lora(kEven, kRank, in_4_bits), plan);
        const Demand demand = total_demand(set.schedules[0]);
        EXPECT_EQ(demand.disk_read_bytes, streamed_bytes(in_4_bits) + 12 * kAdapterNumbers) << in_4_bits;
        EXPECT_EQ(demand.disk_write_bytes, 12 * kAdapterNumbers) << in_4_bits;
        EXPECT_EQ(demand.up_bytes, streamed_bytes(in_4_bits) + kInputBytes) << in_4_bits;
        EXPECT_EQ(demand.down_bytes, 4 * kAdapterNumbers) << in_4_bits;
    }
}

// ---- LSP: 16 bytes for each number of S, two for each of the projectors, which are read only ----

const AdapterSettings kProjectors{.kind = "lsp", .rank = 128, .nonzeros = 16, .seed = 3};
constexpr int64_t kSubspaceOfLayer = 7 * 128 * 128, kSubspace = kLayersOfEven * kSubspaceOfLayer;
constexpr int64_t kProjectorBytesOfLayer = 2 * 16 * (2 * (256 + 256) + 2 * (256 + 128) + 3 * (256 + 512));

int64_t projected_layer_bytes(bool in_4_bits) {
    return (in_4_bits ? kNf4LayerBytes : 2 * kMatrices) + kNormBytes + 2 * kSubspaceOfLayer + kProjectorBytesOfLayer;
}

TEST(LspBytes, MemoryHoldsTheBaseAndTheProjectorsOnceAndSixteenBytesForANumberOfS) {
    for (const bool in_4_bits : {false, true}) {
        const TrainedModel model = with_adapter_of(kEven, kProjectors, in_4_bits);
        const ScheduleSet set = scheduled(model, {.policy = "in_memory"});
        EXPECT_EQ(trained_count(model), kSubspace);
        EXPECT_EQ(tagged_bytes(set, MemoryTag::weights),
                  kLayersOfEven * projected_layer_bytes(in_4_bits) + 2 * kTableBytes + kLastNormBytes);
        EXPECT_EQ(tagged_bytes(set, MemoryTag::low_halves), 2 * kSubspace);
        EXPECT_EQ(tagged_bytes(set, MemoryTag::state), 8 * kSubspace);
        const int64_t sums = tagged_bytes(set, MemoryTag::gradients) - 4 * kSubspace;
        EXPECT_EQ(sums, kLayersOfEven * 7 * 8);
        EXPECT_EQ(tagged_bytes(set, MemoryTag::kept), 0);
    }
}

TEST(LspBytes, AStepMovesGradientsOfSDownAndWritesChunksOfSAlone) {
    for (const bool in_4_bits : {false, true}) {
        const int64_t streamed =
            2 * kLayersOfEven * projected_layer_bytes(in_4_bits) + 2 * kTableBytes + kLastNormBytes;
        const TrainedModel model = with_adapter_of(kEven, kProjectors, in_4_bits);
        Plan plan = host_streamed();
        const Demand over_host = total_demand(scheduled(model, plan).schedules[0]);
        EXPECT_EQ(over_host.up_bytes, streamed + kInputBytes);
        EXPECT_EQ(over_host.down_bytes, 4 * kSubspace);
        EXPECT_EQ(over_host.disk_write_bytes, 0);
        plan.policy = "three_tier";
        plan.store = true;
        plan.common.weights = plan.common.state = Home::disk;
        const Demand over_disk = total_demand(scheduled(model, plan).schedules[0]);
        EXPECT_EQ(over_disk.disk_read_bytes, streamed + 12 * kSubspace);
        EXPECT_EQ(over_disk.disk_write_bytes, 12 * kSubspace);
        EXPECT_EQ(over_disk.down_bytes, 4 * kSubspace);
    }
}

// What backward keeps of a layer's input is S's input alone: as many columns as the projectors have.
TEST(LspBytes, BackwardKeepsTheProjectedInputInPlaceOfTheInput) {
    const TrainedModel model = with_adapter_of(kEven, kProjectors, false);
    const Block& block = model.blocks[1];
    std::vector<uint8_t> trainable;
    for (const int param : block.params) trainable.push_back(model.training[at(param)].trains ? 1 : 0);
    int projected = 0;
    for (const SavedValue& saved : saved_values(*block.program, {.rows = 1, .sequence_length = 32}, trainable)) {
        EXPECT_FALSE(saved.name.ends_with("layernorm")) << saved.name << ": the input of q, k and v, or of gate and up";
        const bool is_input = saved.name.find("lsp_Q") != saved.name.npos;
        if (is_input) {
            EXPECT_EQ(saved.bytes, 32 * kProjectors.rank * 4) << saved.name;
        }
        projected += is_input ? 1 : 0;
    }
    EXPECT_EQ(projected, 7);
}

// ---- its refresh: gradients of a block's weights twice, and W, P and Q written there and nowhere else ----

TrainedModel refreshed_model() {
    TrainedModel model = with_adapter_of(kEven, kProjectors, false);
    set_refreshed(model);
    return model;
}

// The training step and a refresh of two micro-batches.
ScheduleSet with_refresh(const TrainedModel& model, const Plan& plan) {
    const Numerics numerics = numerics_of(DType::bf16, 1, 32, 2);
    ScheduleSet set = lower(model, make_recipe("adamw", {}), numerics, plan,
                            {train_request(numerics),
                             {.kind = ScheduleRequest::Kind::phase,
                              .sequence_length = 32,
                              .micro_batches = 2,
                              .phase = &kProjectorRefresh,
                              .iterations = 10}});
    check(set);
    return set;
}

constexpr int64_t kRefreshedBytes = kLayersOfEven * (2 * kMatrices + kProjectorBytesOfLayer);  // W, P and Q
constexpr int64_t kTwoGradients = 2 * 4 * kLayersOfEven * kMatrices;

TEST(RefreshBytes, GradientsGoDownAndWhatIsOnTheDeviceComesAndGoes) {
    const int64_t streamed = 2 * kLayersOfEven * projected_layer_bytes(false) + 2 * kTableBytes + kLastNormBytes;
    Plan plan = host_streamed();
    const Demand over_host = total_demand(*with_refresh(refreshed_model(), plan).find("refresh/32"));
    EXPECT_EQ(over_host.up_bytes, streamed + kInputBytes);
    EXPECT_EQ(over_host.down_bytes, kTwoGradients);
    EXPECT_EQ(over_host.disk_read_bytes + over_host.disk_write_bytes, 0);
    plan.common.weights = Home::device;
    const Demand held = total_demand(*with_refresh(refreshed_model(), plan).find("refresh/32"));
    EXPECT_EQ(held.up_bytes, kRefreshedBytes + 2 * kSubspace + kInputBytes);
    EXPECT_EQ(held.down_bytes, kTwoGradients + kRefreshedBytes);
}

TEST(RefreshBytes, OverDiskItWritesWhatItChangesAndNoStepDoes) {
    const int64_t streamed = 2 * kLayersOfEven * projected_layer_bytes(false) + 2 * kTableBytes + kLastNormBytes;
    Plan plan = host_streamed();
    plan.policy = "three_tier";
    plan.store = true;
    plan.common.weights = plan.common.state = Home::disk;
    const ScheduleSet set = with_refresh(refreshed_model(), plan);
    const Demand refresh = total_demand(*set.find("refresh/32")), step = total_demand(*set.find("train/32"));
    EXPECT_EQ(refresh.disk_read_bytes, streamed + 10 * kSubspace) << "S was read with its block";
    EXPECT_EQ(refresh.disk_write_bytes, kRefreshedBytes + 12 * kSubspace);
    EXPECT_EQ(step.disk_write_bytes, 12 * kSubspace);
    for (const MoveTask& move : set.find("train/32")->moves) {
        if (move.kind != MoveKind::disk_write) continue;
        for (const MovePiece& piece : move.pieces)
            EXPECT_FALSE(move.place == DiskPlace::weight && !refreshed_model().training[at(piece.param)].trains);
    }
}

// In f32, for each half of the rows, of one block at a time.
TEST(RefreshBytes, GradientsOfOneBlockAreAlive) {
    const ScheduleSet set = with_refresh(refreshed_model(), {.policy = "in_memory"});
    const Schedule& refresh = *set.find("refresh/32");
    std::vector<std::pair<int, int>> lives;
    for (const BufferSpec& buffer : refresh.buffers) {
        if (buffer.tag != MemoryTag::gradients) continue;
        EXPECT_EQ(buffer.bytes, 4 * kMatrices);
        lives.emplace_back(buffer.first, buffer.last);
    }
    ASSERT_EQ(std::ssize(lives), 2 * kLayersOfEven);
    std::ranges::sort(lives);
    for (size_t next = 2; next < lives.size(); next += 2)
        EXPECT_GT(lives[next].first, std::max(lives[next - 1].second, lives[next - 2].second));
}

}  // namespace
}  // namespace windlass
