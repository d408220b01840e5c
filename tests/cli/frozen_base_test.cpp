// AdamW over a base that is frozen in 8 or 4 bits, through the real program; and evaluation of weights kept so.
#include <gmock/gmock.h>

#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;

class FrozenBase : public testing::TestWithParam<const char*> {
  protected:
    Settings settings(const Settings& changes = {}) {
        Settings all = sandbox_.training();
        all["freeze"] = "*_proj.weight";
        all["weight_storage"] = GetParam();
        all["learning_rate"] = "1e-3";
        all["max_steps"] = "24";
        all["save_steps"] = "8";
        for (const auto& [key, value] : changes) all[key] = value;
        return all;
    }
    Settings on_disk() { return {{"policy", "three_tier"}, {"ssd_dir", sandbox_ / "ssd"}}; }
    double loss(const std::string& model, const std::vector<std::string>& more) {
        std::vector<std::string> words = {"eval", model, "--data", sandbox_.token_rows(), "--json", "dtype=bf16"};
        words.insert(words.end(), more.begin(), more.end());
        return json_of(sandbox_.windlass(words)).at("loss").get<double>();
    }
    Sandbox sandbox_;
};

TEST_P(FrozenBase, AKilledRunOnDiskHasTheWeightsOfOneInMemory) {
    must_succeed(sandbox_.train(settings({{"output_dir", sandbox_ / "memory"}})));
    const Weights expected = weights_in(sandbox_ / "memory/final"), base = weights_in(sandbox_.model());
    for (const auto& [name, bytes] : expected)
        EXPECT_EQ(bytes == base.at(name), name.ends_with("_proj.weight")) << name;
    kill_after(sandbox_, settings(on_disk()), {}, 5);
    must_succeed(sandbox_.train(settings(on_disk()), {"--resume"}));
    EXPECT_TRUE(weights_in(sandbox_.out() + "/final") == expected);
    // A checkpoint is of the same run, exported or resumed from, in memory or not.
    must_succeed(sandbox_.windlass({"export", sandbox_ / "memory/checkpoint-24", "--to", sandbox_ / "exported"}));
    EXPECT_TRUE(weights_in(sandbox_ / "exported") == expected);
    must_succeed(sandbox_.train(settings({{"output_dir", sandbox_ / "memory"}}), {"--resume=8"}));
    EXPECT_TRUE(weights_in(sandbox_ / "memory/final") == expected);
}

// What a run computes with is what is evaluated in fewer bits.
TEST_P(FrozenBase, EvaluatesAsItWasRounded) {
    const std::string narrow = fmt::format("weight_storage={}", GetParam());
    const double whole = loss(sandbox_.model(), {}), rounded = loss(sandbox_.model(), {narrow});
    EXPECT_NE(rounded, whole);
    must_succeed(sandbox_.train(settings({{"learning_rate", "0"}, {"max_steps", "1"}, {"save_steps", "null"}})));
    EXPECT_EQ(whole, loss(sandbox_.out() + "/final", {})) << "what was not trained is written as it was read";
    EXPECT_EQ(rounded, loss(sandbox_.model(), {narrow, "ram=64MiB", "ssd_dir=" + sandbox_ / "ssd"}));
    must_succeed(sandbox_.windlass({"generate", sandbox_.model(), "--prompt", "ab", "--max-new-tokens", "3", narrow}));
}

TEST_P(FrozenBase, IsRefusedWhereNothingIsFrozen) {
    const Finished refused = run(sandbox_.train(settings({{"freeze", "[]"}})));
    EXPECT_EQ(refused.code, 2) << describe(refused);
    EXPECT_THAT(refused.err, HasSubstr("trains every matrix"));
}

INSTANTIATE_TEST_SUITE_P(Types, FrozenBase, testing::Values("f8", "nf4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass::cli
