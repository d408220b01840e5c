// The first hour: which models people name, and in what state their folders are.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "base/error.h"
#include "tests/cli/first_hour.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

std::function<void(const std::string&)> with_key(const std::string& key, const Json& value) {
    return [key, value](const std::string& folder) {
        edit_json(folder + "/config.json", [&](Json& config) { config[key] = value; });
    };
}

void keep_config_only(const std::string& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().filename() != "config.json") fs::remove(entry.path());
}

// The model in a cache as huggingface_hub lays it out, as revision 1a2b: files are links to blobs.
std::string make_cache(Sandbox& sandbox, const std::string& root = "hub") {
    const std::string repo = sandbox / root + "/models--tiny--llama";
    fs::create_directories(repo + "/refs");
    fs::create_directories(repo + "/snapshots/1a2b");
    fs::create_directories(repo + "/blobs");
    write_bytes(repo + "/refs/main", "1a2b");
    for (const auto& entry : fs::directory_iterator(sandbox.model())) {
        const std::string name = entry.path().filename();
        fs::copy(entry.path(), repo + "/blobs/" + name);
        fs::create_symlink("../../blobs/" + name, repo + "/snapshots/1a2b/" + name);
    }
    return sandbox / root;
}

// With a cache that this variable leads to; what follows is run so too.
std::function<Command(Sandbox&)> in_cache(const std::string& variable, const std::string& value,
                                          std::vector<std::string> with) {
    return [variable, value, with](Sandbox& sandbox) {
        make_cache(sandbox, variable == "HF_HOME" ? "home/hub" : "hub");
        Command command = words(with)(sandbox);
        command.environment[variable] = sandbox / value;
        return command;
    };
}

std::function<Command(Sandbox&, const Finished&)> then_in_cache(std::vector<std::string> with) {
    return [with](Sandbox& sandbox, const Finished&) {
        Command command = words(with)(sandbox);
        command.environment["HF_HUB_CACHE"] = sandbox / "hub";
        return command;
    };
}

std::vector<Tried> ids() {
    const std::vector<std::string> by_id = {"inspect", "tiny/llama"};
    return {
        {"IdThatIsNotThere",
         words({"train", "--model", "Qwen/Qwen3-0.6B", "--train-data", "x.jsonl", "--output-dir", "@o"}),
         kModel,
         {"Qwen/Qwen3-0.6B", "huggingface/hub", "Try: hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B"}},
        {"OldIdThatIsNotThere",
         words({"plan", "--model", "distilgpt2"}),
         kModel,
         {"Try: hf download distilgpt2 --local-dir distilgpt2"}},
        {"IdInTheCache", in_cache("HF_HUB_CACHE", "hub", by_id), 0, {"revision 1a2b", "snapshots/1a2b", "supported"}},
        {"IdInTheCacheOfHfHome", in_cache("HF_HOME", "home", by_id), 0, {"snapshots/1a2b"}},
        {"IdInTheCacheToPlan",
         in_cache("HF_HUB_CACHE", "hub", {"plan", "--model", "tiny/llama", "--max-length", "32"}),
         0,
         {"snapshots/1a2b", "FITS"}},
        {"IdInTheCacheToTrain",
         [](Sandbox& sandbox) {
             make_cache(sandbox);
             Command command = training({{"model", "tiny/llama"}})(sandbox);
             command.environment["HF_HUB_CACHE"] = sandbox / "hub";
             return command;
         },
         0,
         {"revision 1a2b", "out/final"}},
        {"CacheForAFolder",
         in_cache("HF_HUB_CACHE", "hub", {"inspect", "@hub"}),
         kModel,
         {"is a Hugging Face cache", "Try: tiny/llama"},
         then_in_cache({"inspect", "tiny/llama"})},
        {"OneModelOfTheCache",
         in_cache("HF_HUB_CACHE", "hub", {"inspect", "@hub/models--tiny--llama"}),
         0,
         {"tiny/llama is revision 1a2b"}},
        {"SnapshotByItsPath",
         in_cache("HF_HUB_CACHE", "hub", {"inspect", "@hub/models--tiny--llama/snapshots/1a2b"}),
         0,
         {"supported"}},
    };
}

std::vector<Tried> config_keys() {
    return {
        {"NeutralKeyOfSmolLM", training_after(with_key("is_llama_config", true)), 0, {"\"is_llama_config\"", "final"}},
        {"NeutralKeyOfDistilGpt2", training_after(with_key("_num_labels", 1), {}, "gpt2"), 0, {"\"_num_labels\""}},
        {"NeutralKeyOfABrowser",
         training_after(with_key("transformers.js_config", {{"dtype", "q4"}})),
         0,
         {"\"transformers.js_config\" has no effect: transformers does not read it for llama"}},
        {"TwoNeutralKeys",
         training_after([](const std::string& folder) {
             with_key("_num_labels", 1)(folder);
             with_key("is_llama_config", true)(folder);
         }),
         0,
         {"\"_num_labels\", \"is_llama_config\" have no effect: transformers does not read them for llama"}},
        {"AttentionThatServersChange",
         training_after(with_key("dual_chunk_attention_config", {{"chunk_size", 262144}}), {}, "qwen2"),
         kModel,
         {"config.json", "dual_chunk_attention_config", "Try: ignore_config_keys: [dual_chunk_attention_config]"},
         [](Sandbox& sandbox, const Finished&) {
             Settings settings = sandbox.training("qwen2");
             settings["ignore_config_keys"] = "[dual_chunk_attention_config]";
             return sandbox.train(settings);
         }},
        {"KeyOfASection",
         training_after(with_key("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"mscale", 1.5}})),
         kModel,
         {"config.json: rope_scaling", "\"mscale\" is 1.5", "Try: ignore_config_keys: [rope_scaling.mscale]"},
         then_training({{"ignore_config_keys", "[rope_scaling.mscale]"}})},
        {"CodeOfItsOwn",
         training_after([](const std::string& folder) {
             with_key("auto_map", {{"AutoModelForCausalLM", "modeling.X"}})(folder);
             with_key("residual_twist", 0.5)(folder);
         }),
         kModel,
         {"config.json", "residual_twist", "has its own code", "Try: ignore_config_keys: [residual_twist]"},
         then_training({{"ignore_config_keys", "[residual_twist]"}})},
        {"Quantised",
         training_after(with_key("quantization_config", {{"quant_method", "gptq"}})),
         kModel,
         {"config.json", "quantization_config", "Try: "}},
        {"FamilyThatIsNotThere",
         training_after(with_key("model_type", "mixtral")),
         kModel,
         {"\"mixtral\"", "not implemented",
          "Try: a model of type gemma2, gemma3, gemma3_text, gpt2, granite, llama, mistral, olmo2, opt, phi3, qwen2, "
          "qwen3, smollm3"}},
    };
}

std::vector<Tried> tried_folders() {
    const auto in_model = [](std::function<void(const std::string&)> edit, std::vector<std::string> with) {
        return [edit, with](Sandbox& sandbox) {
            edit(sandbox.model());
            return words(with)(sandbox);
        };
    };
    return {
        {"PlanBeforeTheDownload",
         in_model(keep_config_only, {"plan", "--model", "MODEL", "--max-length", "64"}),
         0,
         {"holds no weights: planned from config.json alone, which says that they are bf16", "FITS"}},
        {"PlanBeforeTheDownloadWithData",
         in_model(keep_config_only, {"plan", "--model", "MODEL", "--max-length", "64", "--train-data", "rows.jsonl"}),
         0,
         {"no tokenizer to read rows.jsonl with", "FITS"}},
        {"PlanForACardBeforeTheDownload",
         in_model(keep_config_only,
                  {"plan", "--model", "MODEL", "--max-length", "64", "--alone", "--machine", "rtx4090-desktop"}),
         0,
         {"FITS"}},
        {"InspectBeforeTheDownload",
         in_model(keep_config_only, {"inspect", "MODEL"}),
         0,
         {"not in the folder", "as bf16, which config.json names", "supported"}},
        {"InspectWithoutAType",
         in_model(
             [](const std::string& folder) {
                 keep_config_only(folder);
                 edit_json(folder + "/config.json",
                           [](Json& config) { config.erase("torch_dtype"), config.erase("dtype"); });
             },
             {"inspect", "MODEL"}),
         0,
         {"as f32, since config.json names no type"}},
        {"TrainBeforeTheDownload",
         training_after(keep_config_only),
         kModel,
         {"has no *.safetensors file", "Try: fetch the weights; windlass plan"},
         then({"plan", "--model", "MODEL", "--max-length", "32"})},
        {"Pickles",
         training_after([](const std::string& folder) {
             fs::rename(folder + "/model.safetensors", folder + "/pytorch_model.bin");
         }),
         kModel,
         {"pickles", "Try: python", "safe_serialization"}},
        {"SentencePieceOnly",
         training_after(
             [](const std::string& folder) { fs::rename(folder + "/tokenizer.json", folder + "/tokenizer.model"); }),
         kModel,
         {"tokenizer.model", "Try: load and save the tokenizer once"}},
        {"AdapterForAModel",
         training_after(
             [](const std::string& folder) { fs::rename(folder + "/config.json", folder + "/adapter_config.json"); }),
         kModel,
         {"has no adapter_model.safetensors", "Try: fetch the adapter again"}},
    };
}

// The first way out that a refusal names: "--ram 37.1MiB --policy in_memory ...".
Command first_way_out(Sandbox& sandbox, const Finished& refused) {
    static const std::regex kWay(R"(\n  Try: (--ram [^\n]*)\n)");
    std::smatch found;
    std::vector<std::string> all = {"plan", "--model", sandbox.model(), "--max-length", "32", "--threads", "1"};
    if (!std::regex_search(refused.err, found, kWay)) {
        ADD_FAILURE() << describe(refused);
        return sandbox.windlass(all);
    }
    std::istringstream rest(found[1].str());
    for (std::string word; rest >> word;) all.push_back(word);
    return sandbox.windlass(all);
}

std::vector<Tried> memory() {
    return {
        {"OutOfMemory",
         words({"plan", "--model", "MODEL", "--max-length", "32", "--threads", "1", "--ram", "20MiB"}),
         kNoFit,
         {"plan: does not fit\n  needs at least ", "\n  allowed are 20.00 MiB", "\n  Try: --ram "},
         first_way_out},
        {"AnotherMachine",
         words({"plan", "--alone", "--model", "MODEL", "--machine", "h200-server-8gen5"}),
         0,
         {"FITS"}},
        {"AnotherMachineMisspelt",
         words({"plan", "--model", "MODEL", "--machine", "rtx4090-desktob"}),
         static_cast<int>(ExitCode::usage),
         {"Try: rtx4090-desktop"},
         then({"plan", "--model", "MODEL", "--machine", "rtx4090-desktop"})},
    };
}

std::vector<Tried> runs() {
    const auto without_final = [](std::vector<std::string> with) {
        return after_a_run([with](Sandbox& sandbox) {
            fs::remove_all(sandbox.out() + "/final");
            return words(with)(sandbox);
        });
    };
    return {
        {"GenerateFromARun",
         after_a_run(words({"generate", "@out", "--prompt", "a", "--max-new-tokens", "2"})),
         0,
         {"is a run: its last weights are taken", "out/final"}},
        {"EvaluateARun", after_a_run(words({"eval", "@out", "--data", "@rows.jsonl"})), 0, {"out/final", "perplexity"}},
        {"InspectACheckpoint", after_a_run(words({"inspect", "@out/checkpoint-2"})), 0, {"checkpoint-2/model"}},
        {"GenerateFromARunThatWasStopped",
         without_final({"generate", "@out", "--prompt", "a"}),
         kModel,
         {"has no final model", "Try: windlass export "},
         then({"export", "@out", "--to", "@exported"})},
        {"ExportOfACheckpoint",
         after_a_run(words({"export", "@out:2", "--to", "@x", "--dtype", "f32"})),
         0,
         {"step 2"}},
    };
}

class FirstHour : public testing::TestWithParam<Tried> {};

TEST_P(FirstHour, EndsInTheResultOrInHelp) {
    expect_it_helps(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ids, FirstHour, testing::ValuesIn(ids()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(ConfigKeys, FirstHour, testing::ValuesIn(config_keys()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Folders, FirstHour, testing::ValuesIn(tried_folders()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Memory, FirstHour, testing::ValuesIn(memory()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Runs, FirstHour, testing::ValuesIn(runs()), name_of_tried);

TEST(IgnoredKeys, StandInTheRunAndNotInTheModelThatItWrites) {
    Sandbox sandbox;
    with_key("attention_chunk_size", 64)(sandbox.model());
    Settings settings = sandbox.training();
    settings["ignore_config_keys"] = "[attention_chunk_size]";
    const Finished trained = must_succeed(sandbox.train(settings));
    EXPECT_THAT(trained.err, testing::HasSubstr("\"attention_chunk_size\" is ignored, as ignore_config_keys says"));
    EXPECT_THAT(read_bytes(sandbox.out() + "/run.yaml"),
                testing::HasSubstr("ignore_config_keys: [attention_chunk_size]"));
    EXPECT_FALSE(read_json(sandbox.out() + "/final/config.json").contains("attention_chunk_size"));
    must_succeed(sandbox.windlass({"train", sandbox.out() + "/run.yaml", "--resume", "--max-steps", "3"}));
    must_succeed(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "exported"}));
    must_succeed(sandbox.windlass({"generate", sandbox / "exported", "--prompt", "a", "--max-new-tokens", "1"}));
    must_succeed(sandbox.windlass({"inspect", sandbox.model(), "--ignore-config-keys", "[attention_chunk_size]"}));
    must_succeed(sandbox.windlass(
        {"eval", sandbox.model(), "--data", sandbox / "rows.jsonl", "--ignore-config-keys", "attention_chunk_size"}));
}

TEST(IgnoredKeys, OfASectionAreNotInTheModelThatIsWritten) {
    Sandbox sandbox;
    with_key("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"mscale", 1.5}})(sandbox.model());
    Settings settings = sandbox.training();
    settings["ignore_config_keys"] = "[rope_scaling.mscale]";
    must_succeed(sandbox.train(settings));
    const Json rope = read_json(sandbox.out() + "/final/config.json").at("rope_scaling");
    EXPECT_EQ(rope, Json({{"rope_type", "linear"}, {"factor", 2.0}}));
    must_succeed(sandbox.windlass({"generate", sandbox.out() + "/final", "--prompt", "a", "--max-new-tokens", "1"}));
}

TEST(UnreadKeys, AreWarnedOfOnce) {
    Sandbox sandbox;
    with_key("is_llama_config", true)(sandbox.model());
    for (const Command& command :
         {sandbox.train(sandbox.training()),
          sandbox.windlass({"generate", sandbox.model(), "--prompt", "a", "--max-new-tokens", "1", "--quiet"})}) {
        const std::string err = must_succeed(command).err;
        EXPECT_NE(err.find("is_llama_config"), std::string::npos);
        EXPECT_EQ(err.find("is_llama_config"), err.rfind("is_llama_config")) << err;
    }
}

}  // namespace
}  // namespace windlass::cli
