// What a device cannot compute is refused before anything is planned for it.
#include "plan/refusal.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

std::string refusal(const ModelSpec& model, const Recipe& recipe, DeviceKind device) {
    try {
        require_kernels(model, recipe, device);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::gpu);
        return error.what();
    }
    return "";
}

TEST(Kernels, AreThereForEveryMethodOnCpus) {
    for (const char* family : {"llama", "gpt2", "opt", "qwen3"}) {
        for (const Method* method : all_methods())
            EXPECT_EQ(refusal(tiny_model(family), method->recipe({}), DeviceKind::cpu), "") << family << method->name;
    }
}

TEST(Kernels, ThatADeviceLacksAreNamed) {
    EXPECT_THAT(refusal(tiny_model("llama"), make_recipe("adamw", {}), DeviceKind::fake),
                testing::HasSubstr("device: this build has no forward kernel of embedding for fake"));
    ModelSpec none = tiny_model("llama");
    none.blocks.clear();
    EXPECT_THAT(refusal(none, make_recipe("adamw", {}), DeviceKind::fake),
                testing::HasSubstr("no round kernel of adamw for fake"));
    EXPECT_THAT(refusal(none, make_recipe("zeroth_order", {}), DeviceKind::fake),
                testing::HasSubstr("no materialize kernel of zeroth_order for fake"));
    EXPECT_EQ(refusal(none, forward_recipe(), DeviceKind::fake), "");
}

}  // namespace
}  // namespace windlass
