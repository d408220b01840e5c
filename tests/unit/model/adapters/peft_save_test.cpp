// What is written, as peft, llama.cpp's converter and vLLM want it (docs/format/adapter.md).
#include "tests/unit/model/adapters/adapter_fixtures.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

// A model with an adapter on these modules alone, written and opened again.
struct SavedPeft {
    SavedPeft(const GoldenBase& base, const std::vector<std::string>& modules,
              const AdapterSettings& settings = {.kind = "lora", .rank = 4, .scale = 1.75}) {
        std::vector<int> weights;
        for (const std::string& module : modules) weights.push_back(weight_of_module(base.model, module));
        model = with_adapter(base.model, settings, weights);
        for (const ParamSpec& param : model.params) values.emplace_back(at(param.numel()));
        spread_added(model, values);
        save_peft(real_files(), temp / "adapter", model, {.base_name = "models/base", .base_checksum = "0123"},
                  masters_of(values));
        folder = std::make_unique<AdapterFolder>(AdapterFolder::open(real_files(), temp / "adapter"));
    }
    const Json& config() const { return folder->config(); }
    std::vector<std::string> targets() const { return config()["target_modules"].get<std::vector<std::string>>(); }

    TempFolder temp;
    ModelSpec model;
    ParamValues values;
    std::unique_ptr<AdapterFolder> folder;
};

std::vector<std::string> modules_of(const std::vector<std::string>& layers, const std::vector<std::string>& ends) {
    std::vector<std::string> modules;
    for (const std::string& layer : layers) {
        for (const std::string& end : ends) modules.push_back(layer + end);
    }
    return modules;
}

const std::vector<std::string> kBothLayers = {"model.layers.0.", "model.layers.1."};
const std::vector<std::string> kBothOfGpt2 = {"transformer.h.0.", "transformer.h.1."};

TEST(SavePeft, WritesTheTwoFilesAndNoOther) {
    const SavedPeft saved(GoldenBase("llama"), modules_of(kBothLayers, {"self_attn.q_proj"}));
    EXPECT_THAT(real_files().list(saved.temp / "adapter"),
                UnorderedElementsAreArray({kAdapterConfigName, kAdapterWeightsName}));
    EXPECT_TRUE(is_adapter_folder(real_files(), saved.temp / "adapter"));
    EXPECT_EQ(saved.folder->base_checksum(), "0123");
    EXPECT_LE(saved.folder->tensors().back().bytes, peft_bytes(saved.model));
}

// llama.cpp's convert_lora_to_gguf reads lora_alpha and the names of tensors, and nothing but base_model.model.*.lora_A
// and lora_B; vLLM's PEFTHelper takes r, lora_alpha and target_modules, and refuses modules_to_save, DoRA and biases.
TEST(SavePeft, SaysWhatItsReadersAskFor) {
    const SavedPeft saved(GoldenBase("llama"), modules_of(kBothLayers, {"self_attn.q_proj"}));
    const Json& config = saved.config();
    EXPECT_EQ(config["peft_type"], "LORA");
    EXPECT_EQ(config["task_type"], "CAUSAL_LM");
    EXPECT_EQ(config["base_model_name_or_path"], "models/base");
    EXPECT_EQ(config["r"], 4);
    EXPECT_EQ(config["lora_alpha"], 7.0);
    EXPECT_EQ(config["bias"], "none");
    for (const char* off : {"use_rslora", "use_dora", "fan_in_fan_out"}) EXPECT_EQ(config[off], false) << off;
    EXPECT_TRUE(config["modules_to_save"].is_null());
    EXPECT_EQ(config["init_lora_weights"], true);
    EXPECT_TRUE(config["rank_pattern"].empty() && config["alpha_pattern"].empty());
}

TEST(SavePeft, NamesTensorsAsPeftDoes) {
    const SavedPeft saved(GoldenBase("llama"), {"model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"});
    std::vector<std::string> names;
    for (const TensorEntry& tensor : saved.folder->tensors()) {
        names.push_back(tensor.name);
        EXPECT_EQ(tensor.dtype, DType::f32);
    }
    EXPECT_THAT(names, UnorderedElementsAreArray({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                                                  "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                                                  "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight",
                                                  "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"}));
    const std::string down = "base_model.model.model.layers.1.mlp.down_proj.";
    EXPECT_EQ(saved.folder->find(down + "lora_A.weight")->shape, (Shape{4, 48}));
    EXPECT_EQ(saved.folder->find(down + "lora_B.weight")->shape, (Shape{32, 4}));
}

// As peft names them, and as it has their shapes: A of a table is [r, V].
TEST(SavePeft, NamesTheTableAndTheHead) {
    for (const char* name : {"llama", "qwen2"}) {  // the table of the second is tied
        const GoldenBase base(name);
        const SavedPeft saved(base, {"model.embed_tokens", "lm_head"});
        EXPECT_THAT(saved.targets(), ElementsAre("embed_tokens", "lm_head")) << name;
        std::map<std::string, Shape> shapes;
        for (const TensorEntry& tensor : saved.folder->tensors()) shapes[tensor.name] = tensor.shape;
        EXPECT_THAT(shapes, testing::ElementsAre(
                                testing::Pair("base_model.model.lm_head.lora_A.weight", Shape({4, 32})),
                                testing::Pair("base_model.model.lm_head.lora_B.weight", Shape({96, 4})),
                                testing::Pair("base_model.model.model.embed_tokens.lora_embedding_A", Shape({4, 96})),
                                testing::Pair("base_model.model.model.embed_tokens.lora_embedding_B", Shape({32, 4}))))
            << name;
    }
}

// More rows than one piece holds, and pieces of the table's rows that end within the file's.
TEST(SavePeft, TurnsAroundWhatIsLargerThanAPiece) {
    constexpr int64_t kRank = 40'000;  // three rows a piece
    const GoldenBase base("llama");
    const SavedPeft saved(base, {"model.embed_tokens"}, {.kind = "lora", .rank = kRank, .scale = 1});
    const size_t a = base.model.params.size();
    ASSERT_EQ(saved.model.params[a].added->part, "lora_embedding_A");
    const TensorEntry& tensor = *saved.folder->find(peft_name(saved.model, saved.model.params[a]));
    std::vector<float> theirs(at(96 * kRank));
    saved.folder->read(tensor, 0, std::as_writable_bytes(std::span(theirs)));
    EXPECT_TRUE(in_our_order(saved.model.params[a], theirs) == saved.values[a]);
    std::vector<float> read(saved.values[a].size());
    load_peft_elements(*saved.folder, saved.model, saved.model.params[a], 0, read);
    EXPECT_TRUE(read == saved.values[a]);
}

TEST(SavePeft, HasNoTableAndNoHead) {
    for (const std::string& name : golden_names()) {
        const GoldenBase base(name);
        for (const int weight : linear_layers(base.model)) {
            const std::string module = module_name(base.model, layer_of(base.model.params[at(weight)]));
            for (const char* other : {"embed", "wte", "wpe", "lm_head"})
                EXPECT_THAT(module, testing::Not(testing::HasSubstr(other))) << name;
        }
    }
}

// Whatever made the scale: alpha / r is what every reader knows.
TEST(SavePeft, WritesAScaleByRootAsPlainLora) {
    const SavedPeft saved(GoldenBase("llama"), modules_of(kBothLayers, {"self_attn.q_proj"}),
                          {.kind = "lora", .rank = 9, .scale = 16.0 / 3.0});
    EXPECT_EQ(saved.config()["use_rslora"], false);
    EXPECT_NEAR(saved.config()["lora_alpha"].get<double>(), 48.0, 1e-12);
    EXPECT_NEAR(read_peft_config(*saved.folder).settings.scale, 16.0 / 3.0, 1e-15);
}

// Of a model that sees as well, layers that text does not pass have the same last words: peft would give them adapters.
TEST(SavePeft, NamesNoLayerThatTextDoesNotPass) {
    const GoldenBase base("gemma3");
    std::vector<std::string> modules;
    for (const int weight : linear_layers_of_layers(base.model))
        modules.push_back(module_name(base.model, layer_of(base.model.params[at(weight)])));
    const std::vector<std::string> targets = SavedPeft(base, modules).targets();
    for (const std::string& module : modules) EXPECT_TRUE(is_named_by(module, targets)) << module;
    size_t others = 0;
    for (const TensorPlace& tensor : base.folder.tensors()) {
        if (std::ranges::find(base.model.params, tensor.name, &ParamSpec::name) != base.model.params.end()) continue;
        const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
        EXPECT_FALSE(is_named_by(module, targets)) << module;
        others += module.ends_with("q_proj");
    }
    EXPECT_GT(others, 0u);
}

TEST(SavePeft, NamesTargetsInOneWordWhereThatIsRight) {
    const GoldenBase base("llama");
    EXPECT_THAT(SavedPeft(base, modules_of(kBothLayers, {"self_attn.q_proj", "mlp.up_proj"})).targets(),
                ElementsAre("q_proj", "up_proj"));
}

TEST(SavePeft, NamesTargetsInFullWhereOneLayerHasNone) {
    const GoldenBase base("llama");
    EXPECT_THAT(SavedPeft(base, {"model.layers.1.self_attn.q_proj"}).targets(),
                ElementsAre("model.layers.1.self_attn.q_proj"));
}

// GPT-2 has two modules of the name c_proj in each layer.
TEST(SavePeft, NamesTargetsInTwoWordsWhereOneHitsOthers) {
    const GoldenBase base("gpt2");
    EXPECT_THAT(SavedPeft(base, modules_of(kBothOfGpt2, {"attn.c_proj"})).targets(), ElementsAre("attn.c_proj"));
    EXPECT_THAT(SavedPeft(base, modules_of(kBothOfGpt2, {"attn.c_proj", "mlp.c_proj"})).targets(),
                ElementsAre("c_proj"));
}

TEST(SavePeft, WritesGpt2ByInputsAndOutputs) {
    const SavedPeft saved(GoldenBase("gpt2"), modules_of(kBothOfGpt2, {"mlp.c_fc"}));
    EXPECT_EQ(saved.config()["fan_in_fan_out"], true);
    EXPECT_EQ(saved.folder->find("base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight")->shape, (Shape{4, 32}));
}

// What peft reads back by the first pattern that fits.
TEST(SavePeft, WritesWhatModulesHaveOfTheirOwn) {
    const std::string q = "model.layers.0.self_attn.q_proj", down = "model.layers.1.mlp.down_proj";
    const GoldenBase llama("llama");
    const SavedPeft pairs(llama, modules_of(kBothLayers, {"self_attn.q_proj", "mlp.down_proj"}),
                          {.kind = "lora",
                           .rank = 4,
                           .scale = 2,
                           .layers = {{q, {.rank = 2, .scale = 4}}, {down, {.rank = 9, .scale = 1}}}});
    EXPECT_EQ(pairs.config()["rank_pattern"], (Json{{q, 2}, {down, 9}}));
    EXPECT_EQ(pairs.config()["alpha_pattern"], (Json{{down, 9.0}})) << "8 / 2 is the usual alpha of a rank of 2";
    EXPECT_EQ(peft_settings(*pairs.folder, llama.model).layers.at(q).scale, 4);
    EXPECT_EQ(peft_settings(*pairs.folder, llama.model).layers.at(down).rank, 9);
    const SavedPeft scales(llama, modules_of(kBothLayers, {"self_attn.q_proj", "mlp.down_proj"}),
                           {.kind = "ia3", .layers = {{down, {.scales_input = true}}}});
    EXPECT_EQ(scales.config()["feedforward_modules"], Json::array({down}));
    for (const Json& name : scales.config()["feedforward_modules"])
        EXPECT_THAT(scales.config()["target_modules"].get<std::vector<std::string>>(),
                    testing::Contains(name.get<std::string>()))
            << "peft opens no other file";
    EXPECT_FALSE(scales.config().contains("scales_input"));
    EXPECT_EQ(scales.folder->find(fmt::format("base_model.model.{}.ia3_l", down))->shape, (Shape{1, 48}));
    EXPECT_EQ(scales.folder->find(fmt::format("base_model.model.{}.ia3_l", q))->shape, (Shape{32, 1}));
}

TEST(SavePeft, WritesScalesAsColumns) {
    const SavedPeft saved(GoldenBase("llama"), modules_of(kBothLayers, {"mlp.up_proj"}), {.kind = "ia3"});
    EXPECT_EQ(saved.config()["peft_type"], "IA3");
    EXPECT_TRUE(saved.config()["feedforward_modules"].is_array());
    EXPECT_TRUE(saved.config()["feedforward_modules"].empty());
    EXPECT_EQ(saved.folder->find("base_model.model.model.layers.0.mlp.up_proj.ia3_l")->shape, (Shape{48, 1}));
    EXPECT_FALSE(saved.config().contains("r"));
}

// Files of published GPT-2 models lack the prefix that transformers' modules have.
TEST(SavePeft, WritesTransformersNamesOverABareBase) {
    const GoldenBase base("gpt2", peft_golden_folder("gpt2_bare") + "/model");
    ASSERT_EQ(base.model.file_prefix, "");
    const SavedPeft saved(base, modules_of(kBothOfGpt2, {"attn.c_attn"}));
    ASSERT_NE(saved.folder->find("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight"), nullptr);
    EXPECT_THAT(saved.targets(), ElementsAre("c_attn"));
    const PeftConfig config = read_peft_config(*saved.folder);
    const std::vector<int> layers = peft_layers(*saved.folder, config.settings, base.model);
    EXPECT_EQ(layers.size(), 2u);
    for (size_t i = 0; i < saved.values.size(); ++i) {
        const ParamSpec& param = saved.model.params[i];
        if (!param.added) continue;
        std::vector<float> read(saved.values[i].size());
        load_peft_elements(*saved.folder, saved.model, param, 0, read);
        EXPECT_EQ(read, saved.values[i]) << param.name;
    }
}

// Names as in the base's own files are read too.
TEST(LoadPeft, ReadsBareNames) {
    const GoldenBase base("gpt2", peft_golden_folder("gpt2_bare") + "/model");
    const TempFolder temp;
    const std::string module = "base_model.model.h.1.attn.c_attn.";
    write_adapter(temp / "adapter", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})",
                  {f32_tensor(module + "lora_A.weight", {2, 32}), f32_tensor(module + "lora_B.weight", {96, 2}, 1)});
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp / "adapter");
    const AdapterSettings settings = read_peft_config(folder).settings;
    const std::vector<int> layers = peft_layers(folder, settings, base.model);
    ASSERT_EQ(layers.size(), 1u);
    EXPECT_EQ(base.model.params[at(layers[0])].name, "h.1.attn.c_attn.weight");
    const ModelSpec model = with_adapter(base.model, settings, layers);
    std::vector<float> b(3);
    load_peft_elements(folder, model, model.params.back(), 5, b);
    EXPECT_FLOAT_EQ(b[0], 1.005f);
}

}  // namespace
}  // namespace windlass
