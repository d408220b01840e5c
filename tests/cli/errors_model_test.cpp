// Model folders and tokenizers that must be refused, through the real program.
#include <algorithm>
#include <filesystem>

#include "tests/cli/provoked.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNorm = "model.layers.0.input_layernorm.weight";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";

// A header length that no file has, and none of what follows.
void claim_header(const std::string& folder, uint64_t bytes) {
    std::string file = read_bytes(folder + "/model.safetensors");
    std::memcpy(file.data(), &bytes, sizeof bytes);
    write_bytes(folder + "/model.safetensors", file);
}

// Puts the one file under an index that names `shard` for every tensor.
void make_index(const std::string& folder, const std::string& shard) {
    Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
    edit_safetensors(folder + "/model.safetensors", [&](Json& header, std::string&) {
        for (const auto& [name, entry] : header.items())
            if (name != "__metadata__") index["weight_map"][name] = shard;
    });
    write_bytes(folder + "/model.safetensors.index.json", index.dump());
    fs::rename(folder + "/model.safetensors", folder + "/model-00001-of-00002.safetensors");
}

void drop_tensor(Json& header, std::string& data, const std::string& name) {
    const auto begin = header[name]["data_offsets"][0].get<int64_t>();
    const auto end = header[name]["data_offsets"][1].get<int64_t>();
    data.erase(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    header.erase(name);
    for (auto& [other, entry] : header.items()) {
        if (other == "__metadata__" || entry["data_offsets"][0].get<int64_t>() < begin) continue;
        for (Json& offset : entry["data_offsets"]) offset = offset.get<int64_t>() - (end - begin);
    }
}

void make_pickles(const std::string& folder) {
    fs::rename(folder + "/model.safetensors", folder + "/pytorch_model.bin");
}

std::vector<Provoked> broken_safetensors() {
    return {
        {"TruncatedData",
         with_model([](const std::string& folder) {
             fs::resize_file(folder + "/model.safetensors", fs::file_size(folder + "/model.safetensors") - 1000);
         }),
         kModel,
         {"model.safetensors", "data bytes", "cut short", "Try: "}},
        {"TruncatedHeader",
         with_model([](const std::string& folder) { fs::resize_file(folder + "/model.safetensors", 100); }),
         kModel,
         {"model.safetensors", "claims a header of", "cut short", "Try: "}},
        {"EmptyWeights",
         with_model([](const std::string& folder) { fs::resize_file(folder + "/model.safetensors", 0); }),
         kModel,
         {"model.safetensors", "too few for a safetensors file"}},
        {"HeaderBomb",
         with_model([](const std::string& folder) { claim_header(folder, uint64_t{1} << 62); }),
         kModel,
         {"model.safetensors", "claims a header of 4611686018427387904 bytes"}},
        {"OverlappingOffsets",
         with_tensors([](Json& header, std::string&) {
             for (Json& offset : header[kNorm]["data_offsets"]) offset = offset.get<int64_t>() - 2;
         }),
         kModel,
         {"model.safetensors", kNorm, "tensors overlap"}},
        {"HoleBetweenTensors",
         with_tensors([](Json& header, std::string& data) {
             for (auto& [name, entry] : header.items()) {
                 if (name == "__metadata__") continue;
                 for (Json& offset : entry["data_offsets"]) offset = offset.get<int64_t>() + 4;
             }
             data.insert(0, 4, '\0');
         }),
         kModel,
         {"model.safetensors", "there is a hole before it"}},
        {"BytesBehindTensors",
         with_tensors([](Json&, std::string& data) { data += "more"; }),
         kModel,
         {"model.safetensors", "bytes no tensor owns"}},
        {"SizeOverflow",
         with_tensors([](Json& header, std::string&) {
             header[kQuery]["shape"] = {uint64_t{1} << 40, uint64_t{1} << 40};
         }),
         kModel,
         {"model.safetensors", kQuery, "overflows"}},
    };
}

std::vector<Provoked> wrong_tensors() {
    return {
        {"UnknownDtype",
         with_tensors([](Json& header, std::string&) { header[kNorm]["dtype"] = "Q4_K"; }),
         kModel,
         {"model.safetensors", kNorm, "Q4_K"}},
        {"WrongShape",
         with_tensors([](Json& header, std::string&) {
             header[kQuery]["shape"] = {32, 128};
         }),
         kModel,
         {kQuery, "[32, 128]", "expects [64, 64]"}},
        {"MissingTensor",
         with_tensors([](Json& header, std::string& data) { drop_tensor(header, data, kNorm); }),
         kModel,
         {kNorm, "missing in the folder"}},
        {"ExtraTensor",
         with_tensors([](Json& header, std::string& data) {
             header["model.layers.9.extra.weight"] = {
                 {"dtype", "BF16"}, {"shape", {2}}, {"data_offsets", {data.size(), data.size() + 4}}};
             data.append(4, '\0');
         }),
         kModel,
         {"model.layers.9.extra.weight", "not part of the model"}},
        {"NanInWeights",
         with_tensors([](Json& header, std::string& data) {
             const auto begin = header[kQuery]["data_offsets"][0].get<size_t>();
             data[begin + 6] = '\xc0', data[begin + 7] = '\x7f';
         }),
         kModel,
         {"model.safetensors", kQuery, "nan", "at element 3"}},
    };
}

std::vector<Provoked> broken_folders() {
    return {
        {"NoFolder",
         with_settings([](Settings& settings, Sandbox&) { settings["model"] += "-2"; }),
         kModel,
         {"llama_tiny-2", "no such model folder"}},
        {"FileForFolder",
         with_settings(
             [](Settings& settings, Sandbox& sandbox) { settings["model"] = sandbox.model() + "/config.json"; }),
         kModel,
         {"is a file, expected a model folder", "Try: "}},
        {"NoConfig",
         with_model([](const std::string& folder) { fs::remove(folder + "/config.json"); }),
         kModel,
         {"config.json"}},
        {"MalformedConfig",
         with_model([](const std::string& folder) { write_bytes(folder + "/config.json", "{\"a\": "); }),
         kModel,
         {"config.json", "not valid JSON at byte"}},
        {"PicklesOnly", with_model(make_pickles), kModel, {"pickles", "Try: ", "transformers"}},
        {"NoWeights",
         with_model([](const std::string& folder) { fs::remove(folder + "/model.safetensors"); }),
         kModel,
         {"has no *.safetensors file"}},
        {"MissingShard",
         with_model([](const std::string& folder) { make_index(folder, "model-00002-of-00002.safetensors"); }),
         kModel,
         {"model.safetensors.index.json", "model-00002-of-00002.safetensors", "not in the folder", "Try: "}},
        {"PathTraversal",
         with_model([](const std::string& folder) { make_index(folder, "../other/model.safetensors"); }),
         kModel,
         {"model.safetensors.index.json", "../other/model.safetensors", "no plain"}},
        {"TornIndex",
         with_model([](const std::string& folder) {
             make_index(folder, "model-00001-of-00002.safetensors");
             edit_json(folder + "/model.safetensors.index.json", [](Json& index) { index["weight_map"].erase(kNorm); });
         }),
         kModel,
         {"model.safetensors.index.json", kNorm, "does not name"}},
    };
}

std::vector<Provoked> unsupported_models() {
    return {
        {"UnknownFamily",
         with_config([](Json& config) { config["model_type"] = "mixtral"; }),
         kModel,
         {"config.json", "\"mixtral\"", "not implemented", "Try: ", "llama"}},
        {"RopeDynamic",
         with_config([](Json& config) {
             config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
         }),
         kModel,
         {"config.json", "rope_scaling", "\"dynamic\" is not implemented", "Try: "}},
        {"AttentionSoftcap",
         with_config([](Json& config) { config["attn_logit_softcapping"] = 50.0; }),
         kModel,
         {"config.json", "attn_logit_softcapping"}},
        {"UnknownKey",
         with_config([](Json& config) { config["attention_chunk_size"] = 64; }),
         kModel,
         {"config.json", "attention_chunk_size", "Try: ignore_config_keys"}},
        {"UnknownKeyOfItsOwnCode",
         with_config([](Json& config) {
             config["residual_twist"] = 0.5;
             config["auto_map"] = {{"AutoModelForCausalLM", "modeling.X"}};
         }),
         kModel,
         {"config.json", "residual_twist", "Try: ignore_config_keys"}},
        {"UnknownActivation",
         with_config([](Json& config) { config["hidden_act"] = "relu2"; }),
         kModel,
         {"config.json", "hidden_act", "relu2", "silu"}},
        {"QuantisedModel",
         with_config([](Json& config) {
             config["quantization_config"] = {{"quant_method", "gptq"}};
         }),
         kModel,
         {"config.json", "quantization_config"}},
        {"HugeHiddenSize",
         with_config([](Json& config) { config["hidden_size"] = int64_t{1} << 60; }),
         kModel,
         {"config.json", "hidden_size"}},
        {"NegativeLayers",
         with_config([](Json& config) { config["num_hidden_layers"] = -2; }),
         kModel,
         {"config.json", "num_hidden_layers"}},
    };
}

void add_id_900(Json& json) {
    Json& vocab = json["model"]["vocab"];
    for (const Json& added : json["added_tokens"]) vocab[added["content"].get<std::string>()] = added["id"];
    vocab["zz"] = 900;
    Json token = json["added_tokens"].back();  // without merges only an added token is ever used
    token["id"] = 900;
    token["content"] = "zz";
    json["added_tokens"].push_back(token);
}

std::function<Command(Sandbox&)> with_id_900(std::vector<std::string> words) {
    return [words](Sandbox& sandbox) mutable {
        edit_json(sandbox.model() + "/tokenizer.json", add_id_900);
        std::ranges::replace(words, "MODEL", sandbox.model());
        std::ranges::replace(words, "ROWS", sandbox.rows("zz.jsonl", {R"({"text": "zz zz"})"}));
        return sandbox.windlass(words);
    };
}

std::vector<Provoked> broken_tokenizers() {
    const auto with_tokenizer = [](std::function<void(Json&)> edit) {
        return with_model([edit](const std::string& folder) { edit_json(folder + "/tokenizer.json", edit); });
    };
    return {
        {"NoTokenizer",
         with_model([](const std::string& folder) { fs::remove(folder + "/tokenizer.json"); }),
         kModel,
         {"no tokenizer", "tokenizer.json", "Try: "}},
        {"UnknownPreTokenizer",
         with_tokenizer([](Json& json) {
             json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
         }),
         kModel,
         {"tokenizer.json", "pre-tokenizer", "\"BertPreTokenizer\" is not supported"}},
        {"UnknownTokenizerModel",
         with_tokenizer([](Json& json) { json["model"]["type"] = "Unigram"; }),
         kModel,
         {"tokenizer.json", "Unigram"}},
        {"IdBeyondModelThatIsEvaluated",
         with_id_900({"eval", "MODEL", "--data", "ROWS"}),
         kData,
         {"zz.jsonl:1", "uses the token \"zz\", whose id is 900: the model has 260 rows", "Try: "}},
        {"IdBeyondModelThatGenerates",
         with_id_900({"generate", "MODEL", "--prompt", "zz"}),
         kData,
         {"prompt: uses the token \"zz\"", "Try: "}},
        {"IdThatLoadersRenumber",
         with_tokenizer([](Json& json) { json["model"]["vocab"]["zz"] = 262; }),
         kModel,
         {"tokenizer.json", "\"<s>\" is said to have the id 256, but other loaders give it 257", "Try: put it"}},
        {"MalformedExpression",
         with_tokenizer([](Json& json) {
             json["pre_tokenizer"] = {
                 {"type", "Split"}, {"pattern", {{"Regex", "(["}}}, {"behavior", "Isolated"}, {"invert", false}};
         }),
         kModel,
         {"tokenizer.json", "(["}},
    };
}

class ModelErrors : public testing::TestWithParam<Provoked> {};

TEST_P(ModelErrors, AreRefusedByName) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Safetensors, ModelErrors, testing::ValuesIn(broken_safetensors()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Tensors, ModelErrors, testing::ValuesIn(wrong_tensors()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Folder, ModelErrors, testing::ValuesIn(broken_folders()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Unsupported, ModelErrors, testing::ValuesIn(unsupported_models()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Tokenizer, ModelErrors, testing::ValuesIn(broken_tokenizers()), name_of_provoked);

}  // namespace
}  // namespace windlass::cli
