#include "format/hf_config.h"

#include <random>

#include "base/error.h"
#include "format/hf_config_rope.h"
#include "tests/place.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HfConfig config_of(std::string text) {
    return HfConfig::parse(std::move(text), "config.json");
}

template <typename Call>
std::string complaint(Call&& call) {
    return message_of<UserError>(std::forward<Call>(call));
}

TEST(HfConfig, ReadsTypedValues) {
    const HfConfig config = config_of(R"({"model_type":"llama","n_embd":64,"eps":1e-05,"theta":10000,"heads":8.0,
                                          "tied":true,"act":"silu","layer_types":["a","b"],"none":null})");
    EXPECT_EQ(config.model_type(), "llama");
    EXPECT_EQ(config.integer({"hidden_size", "n_embd"}, 1, 1000), 64);
    EXPECT_EQ(config.integer("heads", 1, 1000), 8);
    EXPECT_EQ(config.number("eps", 0, 1), 1e-5);
    EXPECT_EQ(config.number("theta", 1, 1e9), 10000.0);
    EXPECT_TRUE(config.flag("tied", false));
    EXPECT_TRUE(config.flag("absent", true));
    EXPECT_EQ(config.text("act"), "silu");
    EXPECT_THAT(config.texts("layer_types"), ElementsAre("a", "b"));
    EXPECT_FALSE(config.has("none"));
    EXPECT_EQ(config.find_integer("none", 0, 1), std::nullopt);
    EXPECT_FALSE(config.flag("none", false));
    config.finish();
}

TEST(HfConfig, NamesKeyAndValueInEveryComplaint) {
    const HfConfig config =
        config_of(R"({"n":70000,"s":"x","f":1.5,"a":1,"b":2,"list":[1],"big":18446744073709551615})");
    EXPECT_EQ(complaint([&] { (void)config.integer("n", 1, 100); }),
              "config.json: \"n\" is 70000, expected an integer in 1..100");
    EXPECT_THAT(complaint([&] { (void)config.integer("big", 1, INT64_MAX); }), HasSubstr("expected an integer"));
    EXPECT_THAT(complaint([&] { (void)config.integer("f", 1, 100); }), HasSubstr("\"f\" is 1.5"));
    EXPECT_THAT(complaint([&] { (void)config.integer("s", 1, 100); }), HasSubstr("\"s\" is \"x\""));
    EXPECT_THAT(complaint([&] { (void)config.number("f", 2, 3); }), HasSubstr("\"f\" is 1.5, expected 2 to 3"));
    EXPECT_THAT(complaint([&] { (void)config.text("n"); }), HasSubstr("expected a string"));
    EXPECT_THAT(complaint([&] { (void)config.texts("list"); }), HasSubstr("expected a list of strings"));
    EXPECT_THAT(complaint([&] { (void)config.flag("n", false); }), HasSubstr("expected true or false"));
    EXPECT_THAT(complaint([&] { (void)config.model_type(); }), HasSubstr("\"model_type\" is missing"));
    EXPECT_THAT(complaint([&] {
                    (void)config.integer({"a", "b"}, 0, 9);
                }),
                HasSubstr("\"b\" is 2, but \"a\", which means the same, is 1"));
    EXPECT_THAT(complaint([&] { (void)config.section("n"); }), HasSubstr("expected an object"));
}

TEST(HfConfig, StopsAtAKeyThatNobodyRead) {
    EXPECT_THAT(complaint([] { config_of(R"({"novel_gate":true})").finish(); }), HasSubstr("\"novel_gate\" is true"));
    EXPECT_THAT(complaint([] { config_of(R"({"novel_gate":false})").finish(); }), HasSubstr("novel_gate"));
    EXPECT_THAT(complaint([] { config_of(R"({"attn_logit_softcapping":50.0})").finish(); }), HasSubstr("50.0"));
    EXPECT_THAT(complaint([] { config_of(R"({"quantization_config":{"bits":4}})").finish(); }),
                HasSubstr("quantization_config"));
    EXPECT_THAT(complaint([] { config_of(R"({"pretraining_tp":2})").finish(); }), HasSubstr("pretraining_tp"));
    EXPECT_THAT(complaint([] { config_of(R"({"scale_attn_weights":false})").finish(); }), HasSubstr("scale_attn"));
}

TEST(HfConfig, PassesNeutralKeysAndValues) {
    config_of(R"({"architectures":["X"],"torch_dtype":"bfloat16","eos_token_id":[1,2],"use_cache":true,
                  "novel":null,"use_sliding_window":false,"attn_logit_softcapping":null,"quantization_config":{},
                  "pretraining_tp":1,"scale_attn_weights":true,"summary_type":"cls_index"})")
        .finish();
    const std::string_view extra[] = {"sliding_window"};
    config_of(R"({"sliding_window":4096})").finish(extra);
}

TEST(HfConfig, ReportsDropoutsInsteadOfStopping) {
    const HfConfig config = config_of(R"({"attn_pdrop":0.1,"embd_pdrop":0.0,"hidden_dropout_prob":0.2})");
    config.finish();
    EXPECT_THAT(config.dropouts(), ElementsAre("attn_pdrop = 0.1", "hidden_dropout_prob = 0.2"));
}

TEST(HfConfig, TracksKeysThroughCopiesAndSections) {
    const HfConfig config = config_of(R"({"text_config":{"hidden_size":8,"gate":1}})");
    const HfConfig copy = config;
    EXPECT_EQ(copy.section("text_config").integer("hidden_size", 1, 9), 8);
    EXPECT_EQ(
        complaint([&] { config.finish(); }),
        "config.json: text_config: \"gate\" is 1: it may change the model's mathematics and is not implemented. Try: "
        "ignore_config_keys: [text_config.gate], if you know that the model is the same without it");
    EXPECT_EQ(config.section("text_config").integer("gate", 0, 1), 1);
    config.finish();
}

TEST(HfConfig, RefusesWhatIsNoConfig) {
    EXPECT_THAT(complaint([] { config_of(""); }), HasSubstr("not valid JSON"));
    EXPECT_THAT(complaint([] { config_of("[]"); }), HasSubstr("is array, expected an object"));
    EXPECT_THAT(complaint([] { config_of(R"({"a":1,"a":2})"); }), HasSubstr("\"a\" twice"));
    EXPECT_THAT(complaint([] { config_of(R"({"a":1e999})"); }), HasSubstr("not valid JSON"));
    EXPECT_THAT(complaint([] { config_of(std::string(5 << 20, ' ')); }), HasSubstr("at most"));
    EXPECT_THAT(complaint([] { config_of(std::string(1000, '[')); }), HasSubstr("deeper than 64"));
}

TEST(HfConfig, KeepsTheTextUnchanged) {
    const std::string text = "{ \"b\" : 1e-05,\n\t\"a\":[ ] }\n";
    EXPECT_EQ(config_of(text).to_text(), text);
}

// ---- published configs ----

// Reads a dense decoder's config the way a family does. False for families that are not ours.
bool read_like_a_family(const HfConfig& config) {
    constexpr int64_t kMost = int64_t{1} << 24;
    const std::string type = config.model_type();
    if (type == "gpt2") {
        for (const char* key : {"n_embd", "n_head", "n_layer", "n_positions", "vocab_size"})
            (void)config.integer(key, 1, kMost);
        (void)config.number("layer_norm_epsilon", 0, 1);
        (void)config.text("activation_function");
        config.finish();
        return true;
    }
    if (type != "llama" && type != "qwen2" && type != "qwen3") return false;
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "vocab_size", "max_position_embeddings"})
        (void)config.integer(key, 1, kMost);
    (void)config.find_integer("head_dim", 1, kMost);
    (void)config.number("rms_norm_eps", 0, 1);
    (void)config.find_text("hidden_act");
    (void)config.find_texts("layer_types");
    (void)config.flag("tie_word_embeddings", false);
    (void)read_rope(config);
    const std::string_view unused[] = {"sliding_window", "max_window_layers"};
    config.finish(type == "llama" ? std::span<const std::string_view>() : unused);
    return true;
}

TEST(HfConfig, ReadsPublishedConfigs) {
    WINDLASS_NEEDS_SHARED_DATA("model-configs/hf");
    const std::string folder = shared_data("model-configs/hf");
    int read = 0, foreign = 0;
    for (const std::string& name : real_files().list(folder)) {
        SCOPED_TRACE(name);
        const std::string text = read_text(real_files(), folder + "/" + name, HfConfig::kBytesMax);
        const HfConfig config = HfConfig::parse(text, name);
        EXPECT_EQ(config.to_text(), text);
        ++(read_like_a_family(config) ? read : foreign);
    }
    EXPECT_EQ(read, 11);
    EXPECT_EQ(foreign, 4);  // gemma2, gemma3, phi3, phi4
}

TEST(HfConfig, SurvivesDamage) {
    const std::string whole = R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,
        "vocab_size":50257,"layer_norm_epsilon":1e-05,"activation_function":"gelu_new","attn_pdrop":0.1})";
    std::mt19937 random(3);
    for (int round = 0; round < 5000; ++round) {
        std::string text = whole;
        if (round % 4 == 0) text.resize(random() % text.size());
        for (int flips = static_cast<int>(random() % 3); flips > 0 && !text.empty(); --flips)
            text[random() % text.size()] = static_cast<char>(random());
        try {
            read_like_a_family(config_of(text));
        } catch (const UserError&) {
        }
    }
}

// What one thread reads of it another one does not know of, but for the keys that the user has taken away.
TEST(HfConfigApart, HasARecordOfItsOwn) {
    HfConfig config = HfConfig::parse(R"({"model_type": "llama", "hidden_size": 8, "pretraining_tp": 2,
        "rope_scaling": {"mscale": 1}})",
                                      "m/config.json");
    config.ignore(std::vector<std::string>{"pretraining_tp", "rope_scaling.mscale"});
    const HfConfig apart = config.apart();
    EXPECT_EQ(config.integer("hidden_size", 1, 8), 8);
    config.section("rope_scaling");
    config.finish();
    EXPECT_EQ(apart.ignored(), config.ignored());
    EXPECT_EQ(apart.where(), config.where());
    EXPECT_THROW(apart.finish(), UserError);
    EXPECT_EQ(apart.integer("hidden_size", 1, 8), 8);
    apart.section("rope_scaling");
    apart.finish();
}

}  // namespace
}  // namespace windlass
