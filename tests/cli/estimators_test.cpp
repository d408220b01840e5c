// Runs of every way to look at losses, through the real program: what their logs are replayed to, how they go on, and
// what they say.
#include <gmock/gmock.h>

#include <csignal>
#include <map>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;

struct Variant {
    const char* name;
    const char* model;  // llama_tiny: stored as bf16; gpt2: as f32
    Settings settings;
};

const Variant kVariants[] = {
    {"fzoo", "llama_tiny", {{"preset", "fzoo"}, {"layer_drop", "0.5"}, {"learning_rate", "1e-3"}}},
    {"spsa15", "gpt2", {{"preset", "spsa15"}, {"directions", "3"}}},
    {"sparse", "llama_tiny", {{"method", "zeroth_order"}, {"sparse_share", "0.25"}, {"weight_decay", "0.1"}}},
    {"tangents", "gpt2", {{"method", "forward_gradient"}, {"layer_drop", "0.5"}}},
};

Settings settings_of(Sandbox& sandbox, const Variant& variant, int64_t steps) {
    Settings settings = sandbox.training(variant.model);
    settings["learning_rate"] = "1e-4";
    settings["lr_scheduler_type"] = "constant";
    settings["save_steps"] = "null";
    settings["max_steps"] = std::to_string(steps);
    for (const auto& [key, value] : variant.settings) settings[key] = value;
    return settings;
}

std::map<std::string, std::string> bytes_of_weights(const std::string& folder) {
    const Tensors tensors = read_safetensors(folder + "/model.safetensors");
    std::map<std::string, std::string> weights;
    for (const auto& [name, tensor] : tensors.header.items()) {
        if (name == "__metadata__") continue;
        const auto begin = tensor["data_offsets"][0].get<size_t>(), end = tensor["data_offsets"][1].get<size_t>();
        weights[name] = tensors.data.substr(begin, end - begin);
    }
    return weights;
}

class Estimators : public testing::TestWithParam<Variant> {};

TEST_P(Estimators, AreReplayedFromTheirLogsAndGoOnFromThem) {
    Sandbox whole, parts;
    must_succeed(whole.train(settings_of(whole, GetParam(), 8)));
    const auto last = bytes_of_weights(whole.out() + "/final");
    ASSERT_TRUE(last != bytes_of_weights(whole / GetParam().model));
    must_succeed(whole.windlass({"replay", whole / GetParam().model, whole.out() + "/trajectory.wlt", "--to",
                                 whole / "replayed", "--threads", "2"}));
    EXPECT_TRUE(bytes_of_weights(whole / "replayed") == last);

    must_succeed(parts.train(settings_of(parts, GetParam(), 4)));
    const std::string said = must_succeed(parts.train(settings_of(parts, GetParam(), 8), {"--resume"})).err;
    EXPECT_THAT(said, HasSubstr("steps 1 to 4 are taken from the log"));
    EXPECT_TRUE(bytes_of_weights(parts.out() + "/final") == last);
}

// With the state on disk the store is a step behind the log where the kill fell between the two: that step is held
// again, as it was.
TEST(EstimatorStore, KilledRunsGoOnWhereTheLogEnds) {
    constexpr int64_t kSteps = 12;
    for (const Variant& variant : {kVariants[0], kVariants[2]}) {
        SCOPED_TRACE(variant.name);
        const auto on_disk = [&](Sandbox& sandbox) {
            Settings settings = settings_of(sandbox, variant, kSteps);
            settings["policy"] = "three_tier";
            settings["ssd_dir"] = sandbox / "ssd";
            return settings;
        };
        Sandbox whole, parts;
        must_succeed(whole.train(settings_of(whole, variant, kSteps)));
        const Settings settings = on_disk(parts);
        Process process(parts.train(settings));
        EXPECT_TRUE(wait_until([&] { return metrics_of(parts.out()).size() >= 5 || !process.is_running(); }, 60));
        process.send(SIGKILL);
        process.wait();
        must_succeed(parts.train(settings, {"--resume"}));
        EXPECT_TRUE(bytes_of_weights(parts.out() + "/final") == bytes_of_weights(whole.out() + "/final"));
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, Estimators, testing::ValuesIn(kVariants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(EstimatorErrors, ARunThatGoesOnKeepsItsEstimator) {
    Sandbox sandbox;
    const Variant& fzoo = kVariants[0];
    must_succeed(sandbox.train(settings_of(sandbox, fzoo, 2)));
    const auto refusal = [&](const Settings& changes) {
        Settings settings = settings_of(sandbox, fzoo, 4);
        for (const auto& [key, value] : changes) settings[key] = value;
        const Finished finished = run(sandbox.train(settings, {"--resume"}));
        EXPECT_EQ(finished.code, 2) << describe(finished);
        return finished.err;
    };
    EXPECT_THAT(refusal({{"zo_estimator", "one_sided"}}), HasSubstr("zo_estimator was fzoo, is one_sided"));
    EXPECT_THAT(refusal({{"layer_drop", "0.25"}}), HasSubstr("layer_drop was 0.5, is 0.25"));
    EXPECT_THAT(refusal({{"sparse_share", "0.25"}}), HasSubstr("sparse_share was 1, is 0.25"));
}

TEST(EstimatorText, APlanSaysWhatAStepLooksAt) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, kVariants[0], 4);
    std::vector<std::string> words = {"plan"};
    for (const std::string& word : words_of(settings)) words.push_back(word);
    EXPECT_THAT(must_succeed(sandbox.windlass(words)).out,
                HasSubstr("8 rademacher directions, fzoo, eps 0.001, 0.5 of the layers left out"));
}

}  // namespace
}  // namespace windlass::cli
