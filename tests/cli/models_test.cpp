// The models that runs leave, and what the other verbs make of them, through the real program.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "format/safetensors.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Name, type and shape of every tensor.
std::vector<std::string> tensors_of(Sandbox& sandbox, const std::string& folder) {
    std::vector<std::string> lines;
    const Json json = json_of(sandbox.windlass({"inspect", folder, "--tensors", "--json"}));
    for (const Json& tensor : json["tensors"])
        lines.push_back(
            fmt::format("{} {} {}", tensor.at("name").dump(), tensor.at("dtype").dump(), tensor.at("shape").dump()));
    std::ranges::sort(lines);
    return lines;
}

class Export : public testing::TestWithParam<const char*> {};

TEST_P(Export, OfATrainedModelHasTheBasesTensorsAndTokenizer) {
    Sandbox sandbox;
    const std::string base = sandbox.model(GetParam());
    must_succeed(sandbox.train(sandbox.training(GetParam())));
    const Json json = json_of(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "x", "--json"}));
    EXPECT_EQ(json["step"], 2);
    for (const std::string& folder : {sandbox / "x", sandbox.out() + "/final", sandbox.out() + "/checkpoint-2/model"}) {
        EXPECT_EQ(tensors_of(sandbox, folder), tensors_of(sandbox, base)) << folder;
        for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
            EXPECT_EQ(read_bytes(folder + "/" + name), read_bytes(base + "/" + name)) << folder;
    }
    EXPECT_TRUE(read_bytes(sandbox / "x/model.safetensors") == read_bytes(sandbox.out() + "/final/model.safetensors"));
    EXPECT_FALSE(read_bytes(sandbox / "x/model.safetensors") == read_bytes(base + "/model.safetensors"));
}

TEST_P(Export, OfAModelThatLearnedNothingIsTheBase) {
    Sandbox sandbox;
    const std::string base = sandbox.model(GetParam());
    Settings settings = sandbox.training(GetParam());
    settings["learning_rate"] = "0";
    must_succeed(sandbox.train(settings));
    const Tensors weights = read_safetensors(base + "/model.safetensors");
    EXPECT_TRUE(read_safetensors(sandbox.out() + "/final/model.safetensors") == weights);
    must_succeed(sandbox.windlass({"export", sandbox.out() + ":2", "--to", sandbox / "x"}));
    EXPECT_TRUE(read_safetensors(sandbox / "x/model.safetensors") == weights);
    EXPECT_EQ(read_json(sandbox / "x/config.json"), read_json(base + "/config.json"));
}

INSTANTIATE_TEST_SUITE_P(Families, Export,
                         testing::Values("llama3", "gpt2", "opt", "qwen3", "phi4_mini", "olmo2", "llama_tiny"));

TEST(ExportOptions, TypeShardSizeAndWorkingStore) {
    Sandbox sandbox;
    Settings settings = sandbox.training_on_disk("llama3");
    settings["save_steps"] = "null";
    must_succeed(sandbox.train(settings));
    const Json json = json_of(sandbox.windlass(
        {"export", sandbox.out(), "--to", sandbox / "x", "--dtype", "bf16", "--max-shard-size", "20KB", "--json"}));
    EXPECT_THAT(json.value("from", ""), HasSubstr(".wls"));
    EXPECT_TRUE(fs::exists(sandbox / "x/model.safetensors.index.json"));
    for (const std::string& tensor : tensors_of(sandbox, sandbox / "x")) EXPECT_THAT(tensor, HasSubstr("\"BF16\""));
    EXPECT_EQ(run(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "x"})).code, 6);
    must_succeed(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "x", "--overwrite"}));
    EXPECT_TRUE(read_bytes(sandbox / "x/model.safetensors") == read_bytes(sandbox.out() + "/final/model.safetensors"));
}

// ---- eval and generate ----

// The rows of a golden record as pre-tokenised rows with labels.
std::string golden_rows(Sandbox& sandbox, const std::string& name) {
    const std::string path = fmt::format("{}/tests/golden/{}/golden.safetensors", source_dir(), name);
    const SafetensorsReader golden = SafetensorsReader::open(real_files(), path);
    const auto numbers = [&](std::string_view tensor) {
        const auto entry = std::ranges::find(golden.entries(), tensor, &TensorEntry::name);
        std::vector<int64_t> values(static_cast<size_t>(entry->bytes / 8));
        golden.read(*entry, 0, std::as_writable_bytes(std::span(values)));
        return values;
    };
    const std::vector<int64_t> ids = numbers("ids"), targets = numbers("targets");
    constexpr size_t kTokens = 24;
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < ids.size(); begin += kTokens) {
        Json row = {{"input_ids", Json::array()}, {"labels", Json::array()}};
        for (size_t i = begin; i < begin + kTokens; ++i) {
            row["input_ids"].push_back(ids[i]);
            row["labels"].push_back(i > begin && targets[i - 1] >= 0 ? ids[i] : -100);
        }
        lines.push_back(row.dump());
    }
    return sandbox.rows("golden.jsonl", lines);
}

class Eval : public testing::TestWithParam<const char*> {};

TEST_P(Eval, GivesTheGoldenLoss) {
    Sandbox sandbox;
    const Json golden = read_json(fmt::format("{}/tests/golden/{}/golden.json", source_dir(), GetParam()));
    const std::string rows = golden_rows(sandbox, GetParam());
    const Json json = json_of(sandbox.windlass({"eval", sandbox.model(GetParam()), "--data", rows, "--json"}));
    const double loss = golden["loss"];
    EXPECT_NEAR(json.value("loss", 0.0), loss, 1e-5 * loss);
    EXPECT_NEAR(json.value("perplexity", 0.0), std::exp(loss), 1e-4 * std::exp(loss));
    EXPECT_EQ(json["target_tokens"], golden["trained_tokens"]);
    EXPECT_EQ(json["rows"], 2);
}

INSTANTIATE_TEST_SUITE_P(Families, Eval,
                         testing::Values("gpt2", "gpt2_variant", "granite", "llama", "llama3", "llama_biases",
                                         "llama_linear", "llama_yarn", "mistral_window", "olmo2", "opt",
                                         "opt_post_norm", "phi3", "phi4_mini", "qwen2", "qwen3", "smollm3", "gemma2",
                                         "gemma3_text", "gemma3"));

TEST(EvalOptions, PlainTextAndChoices) {
    Sandbox sandbox;
    const std::string rows = golden_rows(sandbox, "llama3");
    EXPECT_THAT(must_succeed(sandbox.windlass({"eval", sandbox.model("llama3"), "--data", rows})).out,
                HasSubstr("perplexity"));
    const std::string choices = sandbox.rows(
        "choice.jsonl", {R"({"prompt": "a", "completion": " b"})", R"({"prompt": "c", "completion": " d"})"});
    const Json json =
        json_of(sandbox.windlass({"eval", sandbox.model("llama3"), "--data", choices, "--choices", " b| d", "--json"}));
    EXPECT_EQ(json["rows"], 2);
    EXPECT_DOUBLE_EQ(json["accuracy"].get<double>() * 2, json["right"].get<double>());
}

TEST(Generate, IsTheSameEachTimeAndFollowsTheSeed) {
    Sandbox sandbox;
    const std::vector<std::string> words = {"generate", sandbox.model(), "--prompt", "Once", "--max-new-tokens",
                                            "12",       "--json"};
    const Json json = json_of(sandbox.windlass(words));
    EXPECT_EQ(json["prompt"], "Once");
    EXPECT_LE(json["ids"].size(), 12u);
    EXPECT_EQ(json_of(sandbox.windlass(words))["ids"], json["ids"]);
    std::vector<std::string> drawn = words;
    drawn.insert(drawn.end(), {"--temperature", "1", "--seed", "3"});
    const Json first = json_of(sandbox.windlass(drawn));
    EXPECT_EQ(json_of(sandbox.windlass(drawn))["ids"], first["ids"]);
    drawn.back() = "4";
    EXPECT_NE(json_of(sandbox.windlass(drawn))["ids"], first["ids"]);
}

TEST(Generate, ReadsThePromptFromStdin) {
    Sandbox sandbox;
    const std::vector<std::string> given = {"generate", sandbox.model(), "--prompt", "Once", "--max-new-tokens", "5"};
    Command command = sandbox.windlass({"generate", sandbox.model(), "--prompt", "-", "--max-new-tokens", "5"});
    command.input = "Once";
    EXPECT_EQ(must_succeed(command).out, must_succeed(sandbox.windlass(given)).out);
}

}  // namespace
}  // namespace windlass::cli
