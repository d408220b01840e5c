// Adapters of 7 billion parameters on cards that hold the base, and plans that know it.
#include "base/units.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/adapter_fixture.h"

namespace windlass {
namespace {

constexpr const char* kLlama7b = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": false})";
constexpr double kShare = 0.9;  // of a card without a display that a run takes
// Tokens, targets, positions and beginnings of documents.
constexpr int64_t kInputBytesOf512 = 512 * 4 * 4;

Planned adapter_plan(const TrainedModel& model, int64_t card_bytes, const char* policy = "in_memory") {
    const Machine machine = find_machine(real_files(), "rtx4090-workstation-4gen5");
    const Numerics numerics = numerics_of(DType::bf16, 1, 512, 1);
    const PlanRequest request{
        .policy = policy,
        .device = {.kind = DeviceKind::fake, .own_memory = true},
        .threads = machine.threads,
        .budgets = {.ram = 200 * kGiB, .device = static_cast<int64_t>(kShare * static_cast<double>(card_bytes))},
        .schedules = {train_request(numerics)}};
    return make_plan(model, make_recipe("adamw", {}), numerics, machine, request);
}

void expect_resident(const Planned& planned) {
    fmt::print("{}: {}, {}, {} of the card, {:.3f} s\n", planned.plan.policy, describe_placement(planned.plan),
               describe_saved(planned.plan), format_bytes(planned.device_bytes), planned.mean_seconds);
    EXPECT_EQ(planned.plan.policy, "in_memory");
    EXPECT_EQ(planned.step.demand.up_bytes, kInputBytesOf512) << "more goes up than tokens";
    EXPECT_EQ(planned.step.demand.down_bytes, 0);
    EXPECT_EQ(planned.step.demand.disk_read_bytes, 0);
}

TEST(AdapterPlan, LoraOfSevenBillionResidesOnACardOf24Gib) {
    if (is_address_sanitized()) GTEST_SKIP() << "a search of a large model";
    expect_resident(adapter_plan(with_lora(kLlama7b, 16), 24 * kGiB));
}

TEST(AdapterPlan, QloraOfSevenBillionResidesOnACardOf8Gib) {
    if (is_address_sanitized()) GTEST_SKIP() << "a search of a large model";
    expect_resident(adapter_plan(with_lora(kLlama7b, 16, true), 8 * kGiB));
}

// Where it may, the host updates the adapter beside the backward pass: its gradients go down and its weights come up,
// and of the base not a byte moves. By hand: 16 (m + n) numbers of each matrix, 4 of 4096 x 4096 and 3 of 11008 x 4096
// in each of 32 layers.
TEST(AdapterPlan, TheHostUpdatesAnAdapterOfABaseThatResidesWhereThatIsFaster) {
    if (is_address_sanitized()) GTEST_SKIP() << "two searches of a large model";
    constexpr int64_t kNumbers = 32 * 16 * (4 * (4096 + 4096) + 3 * (11008 + 4096));
    const TrainedModel model = with_lora(kLlama7b, 16);
    const Planned inside = adapter_plan(model, 24 * kGiB), planned = adapter_plan(model, 24 * kGiB, "");
    EXPECT_LE(planned.mean_seconds, inside.mean_seconds);
    EXPECT_EQ(planned.plan.policy, "host_stream");
    EXPECT_LT(planned.evaluations, 2000) << "nothing is short, and it was searched as if it were";
    for (const BlockPlan& block : planned.plan.blocks) {
        EXPECT_EQ(block.weights, Home::device);
        EXPECT_EQ(block.state, Home::host);
    }
    EXPECT_EQ(planned.step.demand.up_bytes, 2 * kNumbers + kInputBytesOf512);
    EXPECT_EQ(planned.step.demand.down_bytes, 4 * kNumbers);
}

}  // namespace
}  // namespace windlass
