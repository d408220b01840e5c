// Plans with the same key take the same bytes, whatever else they do.
#include <map>

#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

TEST(PersistentKey, SaysAllThatTheBytesDependOn) {
    const TrainedModel model = tiny_model("llama");
    const Recipe recipe = make_recipe("adamw", {});
    Numerics numerics = numerics_of(DType::bf16, 2, 64, 3);
    numerics.gradient_format = GradientFormat::bf16;
    std::map<std::string, std::array<int64_t, kTierKinds>> known;
    int shared = 0;
    for (Plan plan : plans_on(DeviceKind::fake)) {
        for (const int chunks : {1, 4}) {
            plan.group_chunks = chunks;
            const auto bytes = persistent_bytes(model, recipe, numerics, plan, {train_request(numerics)});
            const auto [found, is_new] = known.try_emplace(persistent_key(plan), bytes);
            if (is_new) continue;
            ++shared;
            EXPECT_EQ(found->second, bytes) << describe(plan);
        }
    }
    EXPECT_GT(shared, 50);
    EXPECT_GT(known.size(), 10u);
}

}  // namespace
}  // namespace windlass
