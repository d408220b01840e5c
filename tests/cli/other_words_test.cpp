// Words of other programs: verbs, flags and files. Each is answered with what does its work here, and that is followed.
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal_by(const Command& command) {
    const Finished finished = run(command);
    EXPECT_EQ(finished.code, kUsage) << describe(finished);
    EXPECT_EQ(finished.out, "");
    return finished.err;
}

std::string advice_in(const std::string& err) {
    const size_t at = err.find("Try: ");
    return at == std::string::npos ? "" : err.substr(at + 5);
}

// Every "windlass VERB --flag" of an advice is one that there is.
void expect_commands_exist(const Sandbox& sandbox, const std::string& advice) {
    static const std::regex kCommand("windlass ([a-z]+)((?: [^ ,;\n]+)*)"), kFlag("--([a-z-]+)");
    for (std::sregex_iterator found(advice.begin(), advice.end(), kCommand), end; found != end; ++found) {
        const std::string help = must_succeed(sandbox.windlass({(*found)[1], "--help-all"})).out;
        const std::string rest = (*found)[2];
        for (std::sregex_iterator flag(rest.begin(), rest.end(), kFlag); flag != end; ++flag)
            EXPECT_THAT(help, HasSubstr(flag->str() + " ")) << advice;
    }
}

TEST(OtherVerbs, AreAnsweredWithWhatDoesTheirWork) {
    const Sandbox sandbox;
    for (const char* verb :
         {"gui",      "watch",   "logs", "completions", "download",  "quantize", "bench",    "finetune", "serve",
          "merge",    "convert", "sft",  "dpo",         "lora",      "pull",     "push",     "upload",   "login",
          "estimate", "fuse",    "list", "stop",        "resume",    "infer",    "evaluate", "tokenize", "info",
          "env",      "import",  "gguf", "perplexity",  "dashboard", "schema",   "man",      "docs"}) {
        const std::string err = refusal_by(sandbox.windlass({verb}));
        EXPECT_THAT(err, HasSubstr(fmt::format("error: {}: there is no such verb", verb)));
        EXPECT_THAT(err, Not(HasSubstr("Try: plan, train"))) << "only the list of verbs";
        EXPECT_NE(advice_in(err), "") << err;
        expect_commands_exist(sandbox, advice_in(err));
    }
}

TEST(OtherFlags, AreAnsweredWithTheFlagThatIsMeant) {
    const Sandbox sandbox;
    const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
        {{"generate", "m", "--prompt", "a", "--temp", "0.7"}, "--temperature 0.7"},
        {{"generate", "m", "--prompt", "a", "--n-predict", "5"}, "--max-new-tokens 5"},
        {{"generate", "m", "--prompt", "a", "-n", "5"}, "--max-new-tokens 5"},
        {{"generate", "m", "--prompt", "a", "--max-new-token", "5"}, "--max-new-tokens"},
        {{"generate", "m", "-p", "hello"}, "--prompt hello"},
        {{"chat", "m", "--temp=0.2"}, "--temperature 0.2"},
        {{"chat", "m", "--system-prompt", "terse"}, "--system terse"},
        {{"export", "r", "--output", "x"}, "--to x"},
        {{"export", "r", "--to", "x", "--force"}, "--overwrite"},
        {{"export", "r", "--to", "x.gguf", "--outtype", "q8_0"}, "--type q8_0"},
        {{"eval", "m", "--data", "r.jsonl", "--limit", "10"}, "--eval-samples 10"},
        {{"train", "-m", "models/x"}, "--model models/x"},
        {{"train", "--lora"}, "--adapter lora"},
        {{"train", "--qlora"}, "--adapter qlora"},
        {{"train", "--gpus", "2"}, "--device cuda"},
        {{"train", "--num_gpus", "2"}, "--device cuda"},
        {{"train", "--push-to-hub"}, "leave push-to-hub out"},
        {{"train", "--vram", "20"}, "--device-memory 20GiB"},
        {{"train", "--gpu-memory", "20GiB"}, "--device-memory 20GiB"},
        {{"plan", "--ctx-size", "2048"}, "--max-length 2048"},
        {{"train", "--per_device_eval_batch_size", "4"}, "leave per_device_eval_batch_size out"},
        {{"train", "--random-state", "3407"}, "--seed 3407"},
        {{"train", "--iters", "600"}, "--max-steps 600"},
    };
    for (const auto& [words, advice] : table) {
        const std::string err = refusal_by(sandbox.windlass(words));
        EXPECT_THAT(err, HasSubstr("Try: " + advice + "\n")) << fmt::format("{}", fmt::join(words, " "));
    }
}

TEST(OwnFlags, TakeUnderscores) {
    Sandbox sandbox;
    must_succeed(sandbox.windlass({"generate", sandbox.model(), "--prompt", "abc", "--max_new_tokens", "2"}));
    must_succeed(sandbox.windlass({"generate", sandbox.model(), "--prompt", "abc", "--max_new_tokens=2", "--top_k=1"}));
    must_succeed(sandbox.windlass({"inspect", sandbox.model(), "--ignore_config_keys", "x"}));
    must_succeed(sandbox.train(sandbox.training(), {"--dry_run"}));
}

TEST(OneProblem, IsToldOnce) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings.erase("model");
    const std::string err = refusal_by(sandbox.train(settings, {"--modle", "x"}));
    EXPECT_THAT(err, HasSubstr("Did you mean \"model\"?"));
    EXPECT_THAT(err, Not(HasSubstr("is not set")));
}

TEST(Sizes, WithoutAUnitAreRefused) {
    Sandbox sandbox;
    EXPECT_THAT(refusal_by(sandbox.windlass({"plan", "--model", sandbox.model(), "--ram", "8"})),
                HasSubstr("8 what? A size has a unit. Try: --ram 8GiB\n"));
    write_bytes(sandbox / "run.yaml", "ram: 8\n");
    EXPECT_THAT(refusal_by(sandbox.windlass({"plan", sandbox / "run.yaml", "--model", sandbox.model()})),
                HasSubstr("run.yaml:1: ram: 8 what? A size has a unit. Try: ram: 8GiB\n"));
    EXPECT_THAT(
        refusal_by(sandbox.windlass({"export", sandbox.model(), "--to", sandbox / "x", "--max-shard-size", "5"})),
        HasSubstr("--max-shard-size: 5 what? A size has a unit. Try: --max-shard-size 5GiB\n"));
}

// Files of other programs where a configuration is expected.
struct OtherFile {
    std::string name, text, says, advice;
};

TEST(OtherFiles, AreAnsweredWithWhatReadsThem) {
    Sandbox sandbox;
    const std::vector<OtherFile> files = {
        {"lf.yaml",
         "model_name_or_path: m\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: d\ntemplate: qwen\n",
         "is a training file of LLaMA-Factory", "windlass config from @lf.yaml > run.yaml"},
        {"axo.yaml", "base_model: m\ndatasets:\n  - path: d\n    type: alpaca\nmicro_batch_size: 2\nwandb_project: x\n",
         "is a training file of axolotl", "windlass config from @axo.yaml > run.yaml"},
        {"trl.yaml", "model_name_or_path: m\ndataset_name: d\nuse_peft: true\nlearning_rate: 1e-4\n",
         "is a training file of transformers", "windlass config from @trl.yaml > run.yaml"},
        {"args.json", R"({"output_dir": "o", "do_train": true, "logging_nan_inf_filter": true, "past_index": -1})",
         "is a training file of transformers", "windlass config from @args.json > run.yaml"},
        {"ds.json", R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}})",
         "is a configuration of DeepSpeed", "windlass plan --model MODEL --ram 32GiB --ssd-dir /nvme/windlass"},
        {"adapter_config.json", R"({"peft_type": "LORA", "r": 8})", "is the configuration of an adapter",
         "--adapter @"},
        {"config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8})", "is a file of a model folder",
         "--model @"},
        {"rows.jsonl", R"({"text": "a"})", "is a file of rows", "--train-data @rows.jsonl"},
        {"model.safetensors", "x", "is a file of weights", "--model @"},
    };
    for (const OtherFile& file : files) {
        write_bytes(sandbox / file.name, file.text);
        const std::string err = refusal_by(sandbox.windlass({"train", sandbox / file.name}));
        EXPECT_THAT(err, HasSubstr(file.says)) << file.name;
        EXPECT_THAT(err, Not(HasSubstr("problems"))) << file.name;
        std::string advice = file.advice;
        if (const size_t at = advice.find('@'); at != advice.npos)
            advice.replace(at, 1, at + 1 == advice.size() ? sandbox.path() : sandbox.path() + "/");
        EXPECT_THAT(err, HasSubstr("Try: " + advice + "\n")) << file.name;
    }
    for (const char* name : {"lf.yaml", "axo.yaml", "trl.yaml", "args.json"})
        must_succeed(sandbox.windlass({"config", "from", sandbox / name}));
    // An adapter's own folder is found by its file's place, and ours stays ours.
    write_bytes(sandbox / "ours.yaml", "base_model: m\nadapter: lora\nram: 8GiB\nwandb_project: x\n");
    EXPECT_THAT(refusal_by(sandbox.windlass({"train", sandbox / "ours.yaml"})), HasSubstr("\"wandb_project\": "));
}

}  // namespace
}  // namespace windlass::cli
