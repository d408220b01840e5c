
#include "base/json.h"
#include "bench/model_work.h"
#include "model/families/decoder.h"
#include "op/ops.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

const char* const kGpt2Small = R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "resid_pdrop": 0.1})";
const char* const kOpt125m = R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "max_position_embeddings": 2048, "vocab_size": 50272, "word_embed_proj_dim": 768,
    "do_layer_norm_before": true, "activation_function": "relu", "torch_dtype": "float16"})";
const char* const kOpt350m = R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "max_position_embeddings": 2048, "vocab_size": 50272, "word_embed_proj_dim": 512,
    "do_layer_norm_before": false})";
const char* const kMistral7b = R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
    "vocab_size": 32000, "sliding_window": 4096, "rope_theta": 10000.0})";

const char* const kSmollm3 = R"({"model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008,
    "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 65536,
    "max_window_layers": 28, "no_rope_layer_interval": 4, "pretraining_tp": 2, "rope_theta": 5000000.0,
    "sliding_window": null, "use_sliding_window": false, "vocab_size": 128256})";
const char* const kOlmo2 = R"({"model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000, "vocab_size": 100352})";
const char* const kGranite = R"({"model_type": "granite", "hidden_size": 4096, "intermediate_size": 12800,
    "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "attention_multiplier": 0.0078125, "embedding_multiplier": 12.0, "logits_scaling": 16.0,
    "residual_multiplier": 0.22, "rope_theta": 10000000.0, "tie_word_embeddings": true, "vocab_size": 49155})";
const char* const kPhi4 = R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920,
    "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10, "max_position_embeddings": 16384,
    "original_max_position_embeddings": 16384, "rope_scaling": null, "rope_theta": 250000, "sliding_window": null,
    "attention_bias": false, "vocab_size": 100352})";

const ParamSpec& param(const ModelSpec& model, const std::string& name) {
    for (const ParamSpec& param : model.params) {
        if (param.name == name) return param;
    }
    throw UserError(ExitCode::model, name, "is no parameter");
}

TEST(Families, CountTheirParametersAsPublished) {
    EXPECT_EQ(build_text(kGpt2Small).param_count(), 124'439'808);
    EXPECT_EQ(build_text(kOpt125m).param_count(), 125'239'296);
    EXPECT_EQ(build_text(kOpt350m).param_count(), 331'196'416);
    EXPECT_EQ(build_text(kMistral7b).param_count(), 7'241'732'096);
    EXPECT_EQ(build_text(kSmollm3).param_count(), 3'075'098'624);
    EXPECT_EQ(build_text(kOlmo2).param_count(), 7'298'617'344);
    EXPECT_EQ(build_text(kGranite).param_count(), 8'170'848'256);
    EXPECT_EQ(build_text(kPhi4).param_count(), 14'659'507'200);
}

// A configuration from the collection, without a key that the tool it was taken from had put there.
std::string published(const std::string& path) {
    Json config = Json::parse(read_text(real_files(), path, 1 << 20));
    config.erase("batchsize");
    if (path.ends_with("phi-4-mini-reasoning.json")) config["model_type"] = "phi3";  // as its own files say
    return config.dump();
}

struct PublishedCount {
    const char* file;
    int64_t count;
};

TEST(Families, CountTheParametersOfPublishedConfigurations) {
    constexpr PublishedCount kCounts[] = {{"hf/Llama-3.2-1B-Instruct", 1'235'814'400},
                                          {"hf/Llama-3.2-3B-Instruct", 3'212'749'824},
                                          {"hf/llama3-8B-instruct", 8'030'261'248},
                                          {"hf/Qwen2-1.5B-Instruct", 1'543'714'304},
                                          {"hf/Qwen2-7B-Instruct", 7'615'616'512},
                                          {"hf/Qwen2.5-0.5B-Instruct", 494'032'768},
                                          {"hf/Qwen2.5-3B", 3'085'938'688},
                                          {"hf/Qwen3-1.7B", 1'720'574'976},
                                          {"hf/Qwen3-4B", 4'022'468'096},
                                          {"hf/Qwen3-8B", 8'190'735'360},
                                          {"hf/gpt2-medium", 354'823'168},
                                          {"hf/gemma2_2b_it", 2'614'341'888},
                                          {"hf/phi3.5-mini-instruct", 3'821'079'552},
                                          {"hf/phi-4-mini-reasoning", 3'836'021'760},
                                          {"hf-shape/llama-3.1-8b", 8'030'261'248}};
    for (const auto& [file, count] : kCounts) {
        const std::string name = fmt::format("model-configs/{}.json", file);
        WINDLASS_NEEDS_SHARED_DATA(name);
        const std::string path = data_folder(name);
        EXPECT_EQ(build_text(published(path)).param_count(), count) << file;
    }
}

TEST(Families, TakeEveryPublishedConfigurationOfTheirTypeAndNameTheOthers) {
    std::set<std::string> known, refused;
    for (const Family* family : all_families()) known.emplace(family->model_type);
    for (const std::string folder : {"model-configs/hf", "model-configs/hf-shape"}) {
        WINDLASS_NEEDS_SHARED_DATA(folder);
        for (const std::string& name : real_files().list(data_folder(folder))) {
            const std::string text = published(data_folder(folder) + "/" + name);
            const std::string type = Json::parse(text).value("model_type", "");
            if (type.empty()) {
                EXPECT_THAT(complaint([&] { build_text(text); }), HasSubstr("model_type")) << name;
            } else if (type == "gemma3") {  // a text model's keys under the type of one that sees
                EXPECT_THAT(complaint([&] { build_text(text); }), HasSubstr("\"text_config\" is missing")) << name;
            } else if (known.contains(type)) {
                EXPECT_GT(build_text(text).param_count(), 0) << name;
            } else {
                EXPECT_THAT(complaint([&] { build_text(text); }), HasSubstr(type)) << name;
                refused.insert(type);
            }
        }
    }
    EXPECT_THAT(refused, testing::UnorderedElementsAre("gpt_oss"));
}

TEST(Families, RefuseByNameWhatChangesTheMathematics) {
    const std::pair<const char*, Json> cases[] = {{"llama", {{"attn_logit_softcapping", 50.0}}},
                                                  {"llama", {{"final_logit_softcapping", 30.0}}},
                                                  {"llama", {{"quantization_config", {{"bits", 4}}}}},
                                                  {"llama", {{"num_experts", 8}}},
                                                  {"llama", {{"sliding_window", 128}}},
                                                  {"llama", {{"hidden_act", "gelu"}}},
                                                  {"llama", {{"partial_rotary_factor", 0.5}}},
                                                  {"llama", {{"layer_types", {"full_attention", "linear_attention"}}}},
                                                  {"llama", {{"layer_types", {"full_attention", "sliding_attention"}}}},
                                                  {"llama", {{"layer_types", {"full_attention"}}}},
                                                  {"mistral_window", {{"attention_bias", true}}},
                                                  {"mistral_window", {{"mlp_bias", true}}},
                                                  {"qwen2", {{"use_mrope", true}}},
                                                  {"qwen3", {{"mlp_bias", true}}},
                                                  {"gemma2", {{"use_bidirectional_attention", true}}},
                                                  {"gemma2", {{"hidden_activation", "gelu"}}},
                                                  {"gemma2", {{"query_pre_attn_scalar", 0}}},
                                                  {"gemma2", {{"attn_logit_softcapping", -1.0}}},
                                                  {"gemma3_text", {{"attn_logit_softcapping", 50.0}}},
                                                  {"gemma3_text", {{"use_bidirectional_attention", true}}},
                                                  {"gemma3_text", {{"layer_types", {"full_attention"}}}},
                                                  {"gemma3", {{"text_config", nullptr}}},
                                                  {"gemma3", {{"tie_word_embeddings", false}}},
                                                  {"gpt2", {{"add_cross_attention", true}}},
                                                  {"gpt2", {{"activation_function", "quick_gelu"}}},
                                                  {"smollm3", {{"no_rope_layers", {1}}}},
                                                  {"smollm3", {{"no_rope_layers", {1, 2}}}},
                                                  {"smollm3", {{"no_rope_layer_interval", 0}}},
                                                  {"smollm3", {{"num_key_value_heads", nullptr}}},
                                                  {"smollm3", {{"layer_types", {"full_attention"}}}},
                                                  {"olmo2", {{"sliding_window", 128}}},
                                                  {"olmo2", {{"mlp_bias", true}}},
                                                  {"olmo2", {{"hidden_act", "gelu"}}},
                                                  {"granite", {{"residual_multiplier", 0}}},
                                                  {"granite", {{"attention_multiplier", -1}}},
                                                  {"granite", {{"logits_scaling", 0}}},
                                                  {"granite", {{"num_local_experts", 8}}},
                                                  {"phi3", {{"attention_bias", true}}},
                                                  {"phi3", {{"full_attn_mod", 2}}},
                                                  {"phi3", {{"interpolate_factor", 2}}},
                                                  {"phi3", {{"partial_rotary_factor", 0.2}}},  // one of eight channels
                                                  {"phi3", {{"layer_types", {"full_attention", "full_attention"}}}},
                                                  {"opt", {{"layer_norm_elementwise_affine", false}}},
                                                  {"opt", {{"activation_function", "swish"}}}};
    for (const auto& [name, change] : cases) {
        const std::string key = change.items().begin().key();
        EXPECT_THAT(complaint([&] { build_text(golden_config(name, change)); }), HasSubstr(key)) << name;
    }
    const Json dynamic = {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}}};
    EXPECT_THAT(complaint([&] { build_text(golden_config("llama", dynamic)); }), HasSubstr("dynamic"));
}

TEST(Families, NameWhatTransformersDoesNotReadForThem) {
    const std::pair<const char*, Json> cases[] = {{"llama", {{"a_key_of_the_future", 1}}},
                                                  {"gpt2", {{"rope_theta", 10000.0}}},
                                                  {"opt", {{"num_key_value_heads", 2}}}};
    for (const auto& [name, change] : cases) {
        const std::string key = change.items().begin().key();
        const ModelSpec model = build_text(golden_config(name, change));
        EXPECT_THAT(model.config_notes, testing::ElementsAre(HasSubstr("\"" + key + "\" has no effect"))) << name;
        EXPECT_THAT(model.notes, testing::Contains(model.config_notes.at(0))) << name;
    }
}

TEST(Families, BoundEverySizeBeforeUsingIt) {
    const std::pair<const char*, Json> cases[] = {{"llama", {{"hidden_size", int64_t{1} << 40}}},
                                                  {"llama", {{"hidden_size", 0}}},
                                                  {"llama", {{"hidden_size", -32}}},
                                                  {"llama", {{"intermediate_size", int64_t{1} << 30}}},
                                                  {"llama", {{"num_hidden_layers", 5000}}},
                                                  {"llama", {{"vocab_size", 1e300}}},
                                                  {"llama", {{"num_attention_heads", 0}}},
                                                  {"llama", {{"num_key_value_heads", 3}}},
                                                  {"llama", {{"head_dim", 7}}},
                                                  {"llama", {{"rms_norm_eps", -1.0}}},
                                                  {"llama", {{"max_position_embeddings", "many"}}},
                                                  {"gpt2", {{"n_head", 5}}},
                                                  {"gpt2", {{"n_positions", int64_t{1} << 50}}},
                                                  {"gpt2", {{"n_inner", -1}}},
                                                  {"opt", {{"num_attention_heads", 5}}},
                                                  {"opt", {{"word_embed_proj_dim", int64_t{1} << 21}}}};
    for (const auto& [name, change] : cases) {
        EXPECT_NE(complaint([&] { build_text(golden_config(name, change)); }), "") << name << change.dump();
    }
    const Json odd = {{"head_dim", nullptr}, {"num_attention_heads", 32}, {"num_key_value_heads", 32}};
    EXPECT_THAT(complaint([&] { build_text(golden_config("llama", odd)); }), HasSubstr("even"));
    const Json all_at_most = {{"hidden_size", kHiddenMax},        {"intermediate_size", kInnerMax},
                              {"num_hidden_layers", kLayersMax},  {"vocab_size", kVocabMax},
                              {"num_attention_heads", kHeadsMax}, {"num_key_value_heads", kHeadsMax}};
    EXPECT_THAT(complaint([&] { build_text(golden_config("llama", all_at_most)); }), HasSubstr("parameters"));
}

TEST(Families, ShareOneProgramBetweenEqualBlocks) {
    const ModelSpec llama = build_text(golden_config("llama"));
    ASSERT_EQ(llama.blocks.size(), 4u);
    EXPECT_EQ(llama.blocks[1].program, llama.blocks[2].program);
    EXPECT_NE(llama.blocks[1].params, llama.blocks[2].params);
    EXPECT_EQ(llama.blocks[0].name, "embedding");
    EXPECT_EQ(llama.blocks[2].name, "layers.1");
    EXPECT_EQ(llama.blocks[3].name, "head");
    EXPECT_EQ(llama.logits.name, "logits");
    const ModelSpec scaled = build_text(golden_config("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}));
    EXPECT_NE(scaled.blocks[1].program, scaled.blocks[2].program);
}

TEST(Families, SortTheTableAndGiveEachParameterItsFirstBlock) {
    for (const std::string& name : golden_names()) {
        const ModelSpec model = build_text(golden_config(name));
        EXPECT_TRUE(std::ranges::is_sorted(model.params, {}, &ParamSpec::name)) << name;
        for (size_t b = model.blocks.size(); b-- > 0;) {
            const Block& block = model.blocks[b];
            ASSERT_EQ(block.params.size(), block.program->weights.size());
            for (size_t i = 0; i < block.params.size(); ++i) {
                const ParamSpec& spec = model.params[static_cast<size_t>(block.params[i])];
                EXPECT_LE(spec.block, static_cast<int>(b)) << spec.name;
                EXPECT_EQ(spec.shape, block.program->weights[i].shape) << spec.name;
            }
        }
    }
    const ModelSpec tied = build_text(golden_config("qwen2"));
    EXPECT_EQ(param(tied, "model.embed_tokens.weight").block, 0);
    EXPECT_EQ(param(tied, "model.norm.weight").block, 3);
    EXPECT_EQ(tied.blocks[3].params, tied.logits.params);
    EXPECT_THAT(tied.blocks[3].params, testing::Contains(tied.blocks[0].params[0]));
}

TEST(Families, ReadTheirKnobs) {
    const ModelSpec llama = build_text(golden_config("llama", {{"attention_bias", true}, {"mlp_bias", true}}));
    EXPECT_EQ(param(llama, "model.layers.0.self_attn.o_proj.bias").shape, Shape({32}));
    EXPECT_EQ(param(llama, "model.layers.0.mlp.gate_proj.bias").shape, Shape({48}));
    const ModelSpec qwen3 = build_text(golden_config("qwen3"));
    EXPECT_EQ(param(qwen3, "model.layers.1.self_attn.q_norm.weight").shape, Shape({12}));
    EXPECT_EQ(param(qwen3, "model.layers.1.self_attn.o_proj.weight").shape, Shape({32, 48}));
    const ModelSpec gpt2 = build_text(golden_config("gpt2", {{"n_inner", nullptr}}));
    EXPECT_EQ(param(gpt2, "transformer.h.0.mlp.c_fc.weight").shape, Shape({32, 128}));
    const ModelSpec unscaled =
        build_text(golden_config("gpt2", {{"scale_attn_weights", false}, {"scale_attn_by_inverse_layer_idx", true}}));
    const std::vector<const Node*> attention = nodes_of(unscaled, kAttention);
    EXPECT_DOUBLE_EQ(attention[0]->spec.get<AttentionAttrs>().scale, 1.0);
    EXPECT_DOUBLE_EQ(attention[1]->spec.get<AttentionAttrs>().scale, 0.5);
    EXPECT_THAT(build_text(kGpt2Small).notes, testing::ElementsAre(HasSubstr("resid_pdrop = 0.1")));
    EXPECT_EQ(param(build_text(kOpt125m), "model.decoder.embed_positions.weight").shape, Shape({2050, 768}));
    EXPECT_EQ(build_text(kOpt125m).params[0].file_dtype, DType::f16);
}

TEST(Families, ReadWindowsAsTransformersDoes) {
    const auto windows = [](const char* name, const Json& change) {
        return windows_of(build_text(golden_config(name, change)));
    };
    using testing::ElementsAre;
    EXPECT_THAT(windows("mistral_window", {}), ElementsAre(7, 7));
    EXPECT_THAT(windows("mistral_window", {{"sliding_window", nullptr}}), ElementsAre(4096, 4096));
    std::string none = golden_config("mistral_window");
    none.replace(none.find("\"sliding_window\": 7"), 19, "\"sliding_window\": null");
    EXPECT_THAT(windows_of(build_text(none)), ElementsAre(0, 0));
    EXPECT_THAT(windows("mistral_window", {{"layer_types", {"sliding_attention", "full_attention"}}}),
                ElementsAre(7, 0));
    const Json off = {{"sliding_window", 16}, {"max_window_layers", 0}, {"layer_types", nullptr}};
    EXPECT_THAT(windows("qwen2", off), ElementsAre(0, 0));
    const Json on = {
        {"sliding_window", 16}, {"max_window_layers", 1}, {"layer_types", nullptr}, {"use_sliding_window", true}};
    EXPECT_THAT(windows("qwen2", on), ElementsAre(0, 16));
    EXPECT_THAT(windows("qwen3", on), ElementsAre(0, 16));
}

TEST(Families, CountFlopsOfATrainingStep) {
    const ModelSpec gpt2 = build_text(kGpt2Small);
    EXPECT_EQ(matmul_param_count(gpt2),
              124'439'808 - 1024 * 768);  // positions are looked up, the tied table multiplies
    EXPECT_DOUBLE_EQ(training_flops_per_token(gpt2, 512), 6.0 * (124'439'808 - 1024 * 768) + 6.0 * 12 * 768 * 512);
    const ModelSpec mistral = build_text(kMistral7b);
    const double mat =
        6.0 * (7'241'732'096 - int64_t{32000} * 4096);  // the embedding is looked up, the head multiplies
    EXPECT_DOUBLE_EQ(training_flops_per_token(mistral, 2048), mat + 6.0 * 32 * 4096 * 2048);
    // Behind a window of 4096 in a row of 8192: half the tokens see a triangle, the others 4096 keys.
    EXPECT_DOUBLE_EQ(training_flops_per_token(mistral, 8192), mat + 12.0 * 32 * 4096 * (0.5 * 2048 + 0.5 * 4096));
}

TEST(Families, StretchRotaryFrequencies) {
    const RopeSpec plain{.kind = RopeKind::default_, .theta = 10000.0};
    EXPECT_THAT(rope_table(plain, 4).frequencies, testing::ElementsAre(1.0, testing::DoubleEq(0.01)));
    const RopeSpec linear{.kind = RopeKind::linear, .theta = 10000.0, .factor = 4.0};
    EXPECT_THAT(rope_table(linear, 4).frequencies, testing::ElementsAre(0.25, testing::DoubleEq(0.0025)));
    // Llama 3.1: wavelengths below 2048 stay, above 8192 become eight times as long.
    const RopeSpec llama3{RopeKind::llama3, 500000.0, 8.0, 1.0, 4.0, 8192};
    const std::vector<double> stretched = rope_table(llama3, 128).frequencies,
                              kept = rope_table({.theta = 500000.0}, 128).frequencies;
    EXPECT_DOUBLE_EQ(stretched[0], kept[0]);
    EXPECT_DOUBLE_EQ(stretched[28], kept[28]);        // wavelength 1956
    EXPECT_LT(stretched[29], kept[29]);               // wavelength 2402
    EXPECT_GT(stretched[34], kept[34] / 8.0);         // wavelength 6700
    EXPECT_DOUBLE_EQ(stretched[35], kept[35] / 8.0);  // wavelength 8218
}

}  // namespace
}  // namespace windlass
