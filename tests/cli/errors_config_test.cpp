// Command lines and configurations that must be refused, through the real program.
#include <gmock/gmock.h>

#include "tests/cli/provoked.h"

namespace windlass::cli {
namespace {

std::function<Command(Sandbox&)> with_words(std::vector<std::string> words) {
    return [words](Sandbox& sandbox) { return sandbox.windlass(words); };
}

std::function<Command(Sandbox&)> with_setting(std::string key, std::string value) {
    return with_settings([key, value](Settings& settings, Sandbox&) { settings[key] = value; });
}

// A configuration file of these lines behind the one for the model.
std::function<Command(Sandbox&)> with_file(std::string lines) {
    return [lines](Sandbox& sandbox) {
        std::string text;
        for (const auto& [key, value] : sandbox.training()) text += fmt::format("{}: {}\n", key, value);
        write_bytes(sandbox / "run.yaml", lines + text);
        return sandbox.windlass({"train", sandbox / "run.yaml"});
    };
}

std::vector<Provoked> command_lines() {
    return {
        {"UnknownVerb", with_words({"trian"}), kUsage, {"trian", "--help"}},
        {"UnknownFlagOfVerb", with_words({"inspect", "m", "--tenors"}), kUsage, {"--tenors", "Try: "}},
        {"UnknownConfigFlag",
         with_words({"train", "--learning-rte", "1"}),
         kUsage,
         {"--learning-rte", "no key", "Did you mean \"learning_rate\"?"}},
        {"FlagWithoutValue", with_words({"train", "--model"}), kUsage, {"--model", "a value is missing"}},
        {"NothingSet",
         with_words({"train"}),
         kUsage,
         {"3 problems", "model is not set", "train_data is not set", "output_dir is not set", "Try: --model"}},
        {"NoPrompt", with_words({"generate", "m"}), kUsage, {"--prompt"}},
        {"NoTarget", with_words({"export", "runs/first"}), kUsage, {"--to"}},
        {"TwoFiles", with_words({"train", "/dev/null", "/dev/null"}), kUsage, {"/dev/null", "already"}},
        {"NoConfigFile",
         with_words({"train", "absent.yaml"}),
         kUsage,
         {"absent.yaml", "no such configuration file", "Try: "}},
    };
}

// What methods that keep no gradients are refused, and what others are.
std::vector<Provoked> gradients_at_once() {
    return {
        {"LomoDeferred",
         with_file("method: lomo\nupdate_time: next_forward\n"),
         kUsage,
         {"update_time is next_forward", "method lomo keeps no gradients", "Try: update_time: auto"}},
        {"AdalomoWaiting",
         with_file("method: adalomo\nupdate_time: after_backward\n"),
         kUsage,
         {"update_time is after_backward", "method adalomo keeps no gradients", "Try: update_time: auto"}},
        {"MastersOfAdamw",
         with_file("weight_storage: split\n"),
         kUsage,
         {"weight_storage split", "method is adamw", "Try: weight_storage: as_file"}},
        {"LomoIn8Bits",
         with_file("method: lomo\nweight_storage: f8\n"),
         kUsage,
         {"weight_storage", "f8", "lomo", "Try: "}},
    };
}

std::vector<Provoked> configurations() {
    return {
        {"UnknownKeyWithLine",
         with_file("learning_rat: 1\n"),
         kUsage,
         {"run.yaml:1", "learning_rat", "Did you mean \"learning_rate\"?"}},
        {"KeyOfAnotherTool",
         with_file("seed: 1\noptim: adamw_torch\n"),
         kUsage,
         {"run.yaml:2", "optim", "Try: method: adamw"}},
        {"MalformedYaml", with_file("seed: [1\n"), kUsage, {"run.yaml:", "not valid YAML"}},
        {"NestedKeys", with_file("training:\n  seed: 1\n"), kUsage, {"run.yaml:1", "training", "flat", "Try: "}},
        {"KeyTwice", with_file("seed: 1\nseed: 2\n"), kUsage, {"run.yaml:2", "seed", "set already"}},
        {"NotANumber", with_setting("learning_rate", "fast"), kUsage, {"learning_rate", "\"fast\"", "number"}},
        {"OutOfRange", with_setting("adam_beta2", "1.5"), kUsage, {"adam_beta2", "1.5"}},
        {"UnknownChoice",
         with_setting("lr_scheduler_type", "triangle"),
         kUsage,
         {"lr_scheduler_type", "triangle", "cosine"}},
        {"NotASize", with_setting("ram", "much"), kUsage, {"ram", "\"much\" is not a size", "4GiB"}},
        {"Contradictions",
         with_settings([](Settings& settings, Sandbox&) {
             settings["warmup_steps"] = "1";
             settings["warmup_ratio"] = "0.5";
             settings["policy"] = "three_tier";
             settings["eval_steps"] = "1";
             settings["resume"] = "auto";
             settings["overwrite"] = "true";
         }),
         kUsage,
         {"4 problems", "warmup_steps and warmup_ratio", "ssd_dir is not set", "nothing to evaluate on",
          "resume and overwrite"}},
        {"UnknownPreset", with_setting("preset", "fuyo"), kUsage, {"fuyo", "no preset of that name", "Try: fuyou"}},
        {"UnknownKeyInPreset",
         with_settings([](Settings& settings, Sandbox& sandbox) {
             write_bytes(sandbox / "mine.json", R"({"name": "mine", "paper": "none", "keys": {"polcy": "auto"}})");
             settings["preset"] = sandbox / "mine.json";
         }),
         kUsage,
         {"mine.json: there is no key \"polcy\"", "Did you mean \"policy\"?"}},
        {"LongerThanModel", with_setting("max_length", "100000"), kUsage, {"max_length", "100000", "256", "Try: "}},
        {"UnknownExportType",
         with_words({"export", "runs/first", "--to", "x", "--dtype", "int4"}),
         kUsage,
         {"--dtype", "int4", "Try: ", "bf16"}},
        {"ExportTypeOfNoFile",
         with_words({"export", "runs/first", "--to", "x", "--dtype", "nf4"}),
         kUsage,
         {"--dtype", "nf4", "Try: ", "bf16"}},
        {"ExportOfNoRun",
         [](Sandbox& sandbox) {
             return sandbox.windlass({"export", sandbox.model(), "--to", sandbox / "x"});
         },
         kUsage,
         {"llama", "is neither a run", "Try: "}},
    };
}

class ConfigErrors : public testing::TestWithParam<Provoked> {};

TEST_P(ConfigErrors, AreNamedBeforeAnyWeightIsRead) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(CommandLine, ConfigErrors, testing::ValuesIn(command_lines()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(GradientsAtOnce, ConfigErrors, testing::ValuesIn(gradients_at_once()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Configuration, ConfigErrors, testing::ValuesIn(configurations()), name_of_provoked);

// ---- what does not fit ----

// Weights that no load survives: a refusal that does not speak of them never read them.
void spoil_weights(const std::string& folder) {
    edit_safetensors(folder + "/model.safetensors", [](Json&, std::string& data) { std::ranges::fill(data, '\xff'); });
}

std::function<Command(Sandbox&)> with_budget(std::map<std::string, std::string> budget, bool on_disk) {
    return [budget, on_disk](Sandbox& sandbox) {
        Settings settings = on_disk ? sandbox.training_on_disk() : sandbox.training();
        spoil_weights(sandbox.model());
        for (const auto& [key, value] : budget) settings[key] = value;
        return sandbox.train(settings);
    };
}

std::vector<Provoked> budgets() {
    return {
        {"LittleMemory", with_budget({{"ram", "20MiB"}}, false), kNoFit, {"does not fit", "20", "Try: "}},
        {"LittleMemoryWithDisk",
         with_budget({{"ram", "20MiB"}, {"policy", "auto"}}, true),
         kNoFit,
         {"does not fit", "Try: "}},
        {"LittleDisk", with_budget({{"ssd_space", "100KB"}}, true), kNoFit, {"does not fit", "disk", "Try: "}},
    };
}

class Budget : public testing::TestWithParam<Provoked> {};

TEST_P(Budget, IsRefusedBeforeAnyWeightIsRead) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(TooSmall, Budget, testing::ValuesIn(budgets()), name_of_provoked);

TEST(Budget, SpoiledWeightsAreNoticedWhereTheyAreRead) {
    Sandbox sandbox;
    const Settings settings = sandbox.training();
    spoil_weights(sandbox.model());
    EXPECT_EQ(run(sandbox.train(settings)).code, static_cast<int>(ExitCode::model));
}

}  // namespace
}  // namespace windlass::cli
