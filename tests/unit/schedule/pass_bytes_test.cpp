// What passes take at least, against the schedules of every plan.
#include "schedule/pass_bytes.h"

#include "tests/unit/schedule/adapter_fixture.h"

namespace windlass {
namespace {

constexpr const char* kMedium = R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 16000,
    "max_position_embeddings": 2048})";

// By kind of tier, of the buffers of the set's only schedule: the most that are alive at one time.
std::array<int64_t, kTierKinds> alive_bytes(const ScheduleSet& set) {
    std::array<int64_t, kTierKinds> most{};
    for (size_t tier = 0; tier < set.tiers.size(); ++tier) {
        int64_t bytes = -set.persistent_bytes[tier];
        for (const int64_t each : peak_by_tag(set, static_cast<int>(tier))) bytes += each;
        most[slot(set.tiers[tier].kind)] = bytes;
    }
    return most;
}

// Every value of each block in turn: kept, in memory, on disk where there is a store, and computed again.
void save_by_turns(Plan& plan, const TrainedModel& model, const Numerics& numerics) {
    const OpSize size{.rows = 1, .sequence_length = 1, .compute = numerics.compute};
    const std::array choices = {SaveChoice::keep, kKeepOnHost, plan.store ? kKeepOnDisk : SaveChoice::keep,
                                SaveChoice::recompute};
    for (const Block& block : model.blocks) {
        const std::vector<uint8_t> trainable = trainable_of(model, block);
        plan.blocks.push_back(plan.common);
        for (size_t value = 0; value < saved_values(*block.program, size, trainable).size(); ++value)
            plan.blocks.back().saved.push_back(choices[(plan.blocks.size() + value) % choices.size()]);
    }
}

struct Case {
    const char* name;
    TrainedModel model;
    Recipe recipe = make_recipe("adamw", {});
};

std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const char* name : {"llama", "gpt2", "gemma2"}) cases.push_back({name, tiny_model(name)});
    cases.push_back({"adapter", with_lora(kMedium, 8)});
    cases.push_back({"lomo", tiny_model("llama"), make_recipe("lomo", {})});
    for (Case& each : cases) each.model = stored_as(std::move(each.model), each.recipe);
    return cases;
}

// The share of what is alive on the device that is known.
double compare(const Case& each, const Plan& plan, PassBytes& passes, const Numerics& numerics) {
    SCOPED_TRACE(fmt::format("{}, {}", each.name, describe(plan)));
    ScheduleSet set =
        lower_one(each.model, each.recipe, numerics, plan, {train_request(numerics)}, train_request(numerics));
    place_buffers(set);
    const auto least = passes.least(plan), alive = alive_bytes(set);
    for (size_t tier = 0; tier < kTierKinds; ++tier) EXPECT_LE(least[tier], alive[tier]);
    const auto device = slot(TierKind::device);
    return static_cast<double>(least[device]) / static_cast<double>(std::max<int64_t>(1, alive[device]));
}

TEST(PassBytes, AreNoMoreThanAnyPlanTakesAndMostOfIt) {
    const Numerics numerics = numerics_of(DType::bf16, 2, 64, 2);
    for (const Case& each : cases()) {
        PassBytes passes(each.model, each.recipe, numerics, train_request(numerics));
        const std::vector<Plan> plans = plans_for(each.recipe, each.model, DeviceKind::fake, 1);
        double shares = 0;
        for (Plan plan : plans) {
            plan.group_chunks = 4;
            shares += compare(each, plan, passes, numerics);
            save_by_turns(plan, each.model, numerics);
            shares += compare(each, plan, passes, numerics);
        }
        EXPECT_GT(shares / static_cast<double>(2 * plans.size()), 0.5) << each.name;
    }
}

}  // namespace
}  // namespace windlass
