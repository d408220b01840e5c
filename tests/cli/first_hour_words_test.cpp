// The first hour: verbs, flags and settings as people write them, those of other tools among them.
#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/cli/first_hour.h"

namespace windlass::cli {
namespace {

// Training from a file of these lines, with the sandbox's settings as flags.
std::function<Command(Sandbox&)> training_from(std::string lines) {
    return [lines](Sandbox& sandbox) {
        write_bytes(sandbox / "run.yaml", lines);
        return sandbox.train(sandbox.training(), {sandbox / "run.yaml"});
    };
}

// Prints what would be run; DryRunPrintsTheConfigurationAndWritesNothing says what it leaves alone.
Command dry_run(Sandbox& sandbox) {
    Settings settings = sandbox.training();
    settings["seed"] = "7";
    return sandbox.train(settings, {"--dry-run"});
}

std::vector<Tried> verbs() {
    return {
        {"Nothing", words({}), 0, {"Examples:", "windlass help VERB"}},
        {"Help", words({"--help"}), 0, {"models/Qwen3-0.6B", "Exit codes"}},
        {"HelpAsAVerb", words({"help"}), 0, {"Examples:"}},
        {"HelpOfAVerb", words({"help", "train"}), 0, {"windlass train run.yaml", "--learning-rate"}},
        {"HelpOfAMisspeltVerb",
         words({"help", "trian"}),
         kUsage,
         {"trian: there is no such verb or topic. Try: windlass help train"},
         then({"help", "train"})},
        {"VersionAsAFlag", words({"--version"}), 0, {"windlass ", "kernels "}},
        {"VersionInShort", words({"-V"}), 0, {"windlass "}},
        {"Version", words({"version", "--json"}), 0, {"\"version\""}},
        {"GenerateWithoutAPrompt",
         words({"generate", "MODEL"}),
         kUsage,
         {"--prompt", "Try: windlass generate --help"},
         then({"generate", "--help"})},
        {"ExportAsGguf",
         words({"export", "@out", "--to", "@x", "--format", "gguf"}),
         kUsage,
         {"--format", "Try: windlass export --help"},
         then({"export", "--help"})},
        {"ExportInFourBits",
         words({"export", "@out", "--to", "@x", "--dtype", "int4"}),
         kUsage,
         {"int4", "Try: bf16, f16 or f32"}},
        {"MachineAsJson", words({"doctor", "--machine", "rtx4090-desktop", "--json"}), 0, {"\"threads\": 16"}},
        {"TaskThatIsNotThere",
         words({"eval", "MODEL", "--data", "@x.jsonl", "--task", "mmlu"}),
         kUsage,
         {"mmlu", "Try: aqua"}},
    };
}

// Steps that a run does not have.
std::vector<Tried> steps() {
    const auto after_a_log = [](std::function<Command(Sandbox&)> attempt) {
        return [attempt](Sandbox& sandbox) {
            must_succeed(training({{"method", "zeroth_order"}})(sandbox));
            return attempt(sandbox);
        };
    };
    return {
        {"ExportOfAStepThatWasNotSaved",
         after_a_run(words({"export", "@out:7", "--to", "@x"})),
         kUsage,
         {"/out: has no checkpoint of step 7. Try: one of: 2"},
         then({"export", "@out:2", "--to", "@x"})},
        {"ReplayBeyondTheLog",
         after_a_log(words({"replay", "MODEL", "@out/trajectory.wlt", "--step", "500", "--to", "@x"})),
         kUsage,
         {"--step: 500 is not in ", "which holds steps 1 to 2. Try: --step 2"},
         then({"replay", "MODEL", "@out/trajectory.wlt", "--step", "2", "--to", "@x"})},
    };
}

// Words that are no verbs here.
std::vector<Tried> other_verbs() {
    return {
        {"MisspeltVerb", words({"trian", "run.yaml"}), kUsage, {"Try: windlass train"}, then({"train", "--help"})},
        {"MisspeltInspect", words({"inpsect", "MODEL"}), kUsage, {"Try: windlass inspect"}, then({"inspect", "MODEL"})},
        {"VerbOfNoTool",
         words({"quantise"}),
         kUsage,
         {"there is no such verb", "Try: plan, train, eval", "windlass --help"},
         then({"--help"})},
        {"VerbOfAnotherTool",
         words({"finetune"}),
         kUsage,
         {"there is no such verb", "Try: windlass train"},
         then({"train", "--help"})},
        {"Serve",
         after_a_run(words({"serve", "@out"})),
         kUsage,
         {"there is no such verb", "Try: windlass generate RUN --prompt TEXT, or a server that reads RUN/final"},
         then({"generate", "@out", "--prompt", "a", "--max-new-tokens", "2"})},
        {"ChatWithoutATemplate",
         after_a_run(words({"chat", "@out/final"})),
         kModel,
         {"has no chat template", "Try: --chat-template FILE.jinja, or windlass generate MODEL --prompt TEXT"},
         then({"generate", "@out", "--prompt", "a", "--max-new-tokens", "2"})},
        {"Merge",
         after_a_run(words({"merge", "@out"})),
         kUsage,
         {"Try: windlass export RUN --to FOLDER"},
         then({"export", "@out", "--to", "@merged"})},
    };
}

std::vector<Tried> settings() {
    return {
        {"MisspeltFlag",
         training({{"lerning_rate", "1e-4"}}),
         kUsage,
         {"lerning_rate", "Did you mean \"learning_rate\"?"},
         then_training({{"learning_rate", "1e-4"}})},
        {"ShowSamples",
         words({"train", "--model", "MODEL", "--show-samples", "3"}),
         kUsage,
         {"--show-samples: there is no key", "Did you mean"}},
        {"MisspeltSchedule",
         training({{"lr_scheduler_type", "cosin"}}),
         kUsage,
         {"\"cosin\" is not one of", "Did you mean \"cosine\"?"},
         then_training({{"lr_scheduler_type", "cosine"}})},
        {"MisspeltMethod",
         training({{"method", "adam"}}),
         kUsage,
         {"Did you mean \"adamw\"?"},
         then_training({{"method", "adamw"}})},
        {"LearningRateOfWords",
         training({{"learning_rate", "2e-5x"}, {"max_step", "2"}}),
         kUsage,
         {"2 problems", "\"2e-5x\" is not a number", "Did you mean \"max_steps\"?"},
         then_training({{"learning_rate", "2e-5"}})},
        {"LongerThanTheModel",
         training({{"max_length", "100000"}}),
         kUsage,
         {"the model was made for 256", "Try: max_length: 256"},
         then_training({{"max_length", "256"}})},
        {"NothingSaid",
         words({"train"}),
         kUsage,
         {"3 problems", "model is not set. Try: --model", "train_data is not set", "output_dir is not set"},
         then_training({})},
        {"NoConfigFile",
         words({"train", "@absent.yaml"}),
         kUsage,
         {"no such configuration file", "Try: settings are --key value"},
         then_training({})},
        {"Contradiction",
         training({{"warmup_steps", "1"}, {"warmup_ratio", "0.5"}}),
         kUsage,
         {"warmup_steps and warmup_ratio are both set. Try: one of them"},
         then_training({{"warmup_steps", "1"}})},
        {"DiskPolicyWithoutAFolder",
         training({{"policy", "three_tier"}}),
         kUsage,
         {"ssd_dir is not set. Try: ssd_dir: FOLDER"},
         then_training({{"policy", "three_tier"}, {"ssd_dir", "@ssd"}})},
        {"DryRun", dry_run, 0, {"seed: 7", "max_steps: 2"}},
        {"PlanWithoutData", words({"plan", "--model", "MODEL", "--max-length", "64"}), 0, {"FITS"}},
    };
}

// Where a run reports to, and what it computes on.
std::vector<Tried> surroundings() {
    return {
        {"MisspeltReport",
         training({{"report_to", "tensorbord"}}),
         kUsage,
         {"Did you mean \"tensorboard\"?"},
         then_training({{"report_to", "tensorboard"}})},
        {"TensorBoard", training({{"report_to", "tensorboard"}}), 0, {"final"}},
        {"WeightsAndBiases",
         training({{"report_to", "wandb"}}),
         kUsage,
         {"report_to: \"wandb\" is not one of: jsonl, tensorboard, none"},
         then_training({{"report_to", "[jsonl, tensorboard]"}})},
        {"FolderOfEvents",
         training({{"logging_dir", "@events"}}),
         kUsage,
         {"\"logging_dir\": event files go to output_dir. Try: report_to: [jsonl, tensorboard]"},
         then_training({{"report_to", "[jsonl, tensorboard]"}})},
        {"GraphicsCard",
         training({{"device", "cuda:99"}}),  // no driver, no such card, or a build without CUDA
         kNoDevice,
         {"error: device: ", "Try: device: cpu"},
         then_training({{"device", "cpu"}})},
        {"GraphicsCardToPlan",
         words({"plan", "--model", "MODEL", "--device", "cuda:99"}),
         kNoDevice,
         {"error: device: ", "Try: device: cpu"},
         then({"plan", "--model", "MODEL", "--machine", "rtx4090-desktop"})},
    };
}

std::vector<Tried> other_tools() {
    return {
        {"LoraAsAMethod",
         training({{"method", "lora"}}),
         kUsage,
         {"\"lora\" is not one of: adamw", "Try: adapter: lora"},
         then_training({{"adapter", "lora"}, {"lora_r", "4"}})},
        {"KeysOfLlamaFactory",
         training_from("stage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\nlora_target: all\n"
                       "template: qwen\nplot_loss: true\nquantization_bit: 4\nlora_alpha: 16\n"),
         kUsage,
         {"run.yaml: is a training file of LLaMA-Factory, not a configuration of Windlass. Try: windlass config from ",
          "run.yaml > windlass.yaml"},
         then_training({})},
        {"KeysOfAxolotl",
         training_from("datasets:\n  - path: a.jsonl\n    type: alpaca\nadapter: lora\nlora_r: 8\nload_in_4bit: true\n"
                       "special_tokens:\n  pad_token: x\nwandb_project: y\n"),
         kUsage,
         {"run.yaml: is a training file of axolotl", "Try: windlass config from "},
         then_training({{"train_data", "[@rows.jsonl]"}})},
        {"EarlyStopping",
         training({{"early_stopping_patience", "3"}}),
         kUsage,
         {"early_stopping_patience compares evaluations", "Try: eval_steps: 100, with eval_data or val_split"},
         then_training({{"early_stopping_patience", "3"}, {"eval_steps", "100"}, {"val_split", "0.2"}})},
        {"BestModel",
         training({{"load_best_model_at_end", "true"}}),
         kUsage,
         {"load_best_model_at_end compares evaluations", "Try: eval_steps: 100, with eval_data or val_split"},
         then_training({{"load_best_model_at_end", "true"}, {"eval_steps", "100"}, {"val_split", "0.2"}})},
        {"OptimizerOfTransformers",
         training({{"optim", "adamw_torch"}}),
         kUsage,
         {"Try: method: adamw"},
         then_training({{"method", "adamw"}})},
        {"Bf16AsAFlag", training({{"bf16", "true"}}), kUsage, {"Try: dtype: bf16"}, then_training({{"dtype", "bf16"}})},
        {"DeepSpeed",
         training_from("deepspeed: ds_config.json\n"),
         kUsage,
         {"Try: ssd_dir: /nvme/windlass and ram: 32GiB"},
         then_training({{"ssd_dir", "@ssd"}, {"ram", "2GiB"}})},
        {"NamesOfOthers",
         training_from("num_epochs: 1\nwandb_project: null\n"),
         kUsage,
         {"\"wandb_project\": metrics go to files in output_dir. Try: report_to"},
         then_training({{"report_to", "[jsonl, tensorboard]"}})},
        {"AliasesOfOthers",
         training_from("num_epochs: 1\nlr: 1e-4\n"),
         0,
         {"lr is read as learning_rate", "num_epochs is read as num_train_epochs"}},
    };
}

std::vector<Tried> second_runs() {
    return {
        {"FolderThatIsTaken",
         after_a_run(training({})),
         kUsage,
         {"out", "Try: "},
         then_training({{"resume", "auto"}, {"max_steps", "3"}})},
        {"Resumed", after_a_run(training({{"resume", "auto"}, {"max_steps", "3"}})), 0, {"step 3/3"}},
        {"Overwritten", after_a_run(training({{"overwrite", "true"}})), 0, {"step 2/2"}},
        {"FromItsOwnSettings",
         after_a_run(words({"train", "@out/run.yaml", "--resume", "--max-steps", "3"})),
         0,
         {"step 3/3"}},
    };
}

class FirstHourWords : public testing::TestWithParam<Tried> {};

TEST_P(FirstHourWords, EndInTheResultOrInHelp) {
    expect_it_helps(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Steps, FirstHourWords, testing::ValuesIn(steps()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Verbs, FirstHourWords, testing::ValuesIn(verbs()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(OtherVerbs, FirstHourWords, testing::ValuesIn(other_verbs()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Settings, FirstHourWords, testing::ValuesIn(settings()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Surroundings, FirstHourWords, testing::ValuesIn(surroundings()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(OtherTools, FirstHourWords, testing::ValuesIn(other_tools()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(SecondRuns, FirstHourWords, testing::ValuesIn(second_runs()), name_of_tried);

}  // namespace
}  // namespace windlass::cli
