// An adapter put beside a model: which layers it stands at, and what is refused before a weight is read.
#include "data/open_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "model/adapters/adapter.h"
#include "model/adapters/peft.h"
#include "model/families.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OpenAdapter : public testing::Test {
  protected:
    static std::string golden(const std::string& name) {
        return fmt::format("{}/tests/golden/{}/model", source_dir(), name);
    }
    static std::string peft_golden(const std::string& name) {
        return fmt::format("{}/tests/golden/peft/{}/adapter", source_dir(), name);
    }
    ModelSpec put(const Config& config, const std::string& base = "llama") {
        const ModelFolder folder = ModelFolder::open(real_files(), golden(base));
        HfConfig hf = folder.config();
        ModelSpec model = build_model(hf, folder.tensors());
        has_numbers_ = put_adapter(real_files(), config, folder, model).has_value();
        return model;
    }
    ModelSpec put_on(std::vector<std::string> targets, const std::string& base = "llama") {
        Config config;
        config.adapter = "lora";
        config.lora_r = 4;
        config.lora_target_modules = std::move(targets);
        return put(config, base);
    }
    // Modules with an adapter, in order.
    static std::vector<std::string> adapted(const ModelSpec& model) {
        std::vector<std::string> modules;
        for (const ParamSpec& param : model.params) {
            if (!param.added) continue;
            std::string module = module_name(model, param.added->layer);
            if (modules.empty() || modules.back() != module) modules.push_back(std::move(module));
        }
        return modules;
    }
    template <typename Call>
    static std::string refusal(ExitCode code, Call call) {
        try {
            call();
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
    std::string refused_targets(std::vector<std::string> targets) {
        return refusal(ExitCode::usage, [&] { put_on(std::move(targets)); });
    }
    // A copy of peft's adapter for the golden llama with another field.
    std::string changed(const char* field, const Json& value, const std::string& name = "llama_rslora") {
        const std::string from = peft_golden(name), to = temp_ / "adapter";
        std::filesystem::remove_all(to);
        std::filesystem::copy(from, to);
        Json config = Json::parse(read_text(real_files(), to + "/adapter_config.json", 1 << 20));
        config[field] = value;
        std::filesystem::remove(to + "/adapter_config.json");
        const auto file = real_files().open(to + "/adapter_config.json", {.mode = OpenMode::create});
        const std::string text = config.dump();
        file->write_at(std::as_bytes(std::span(text)), 0);
        return to;
    }
    ModelSpec put_folder(const std::string& folder, const std::string& base = "llama") {
        Config config;
        config.adapter = folder;
        return put(config, base);
    }

    TempFolder temp_;
    bool has_numbers_ = false;
};

TEST_F(OpenAdapter, LeavesAModelAloneWithoutOne) {
    EXPECT_FALSE(put(Config{}).adapter);
    EXPECT_FALSE(has_numbers_);
}

TEST_F(OpenAdapter, StandsAtAllLinearLayersOfLayers) {
    EXPECT_EQ(adapted(put_on({"all-linear"})).size(), 14u);
    EXPECT_FALSE(has_numbers_);
    EXPECT_EQ(adapted(put_on({"all"})).size(), 14u);
    EXPECT_EQ(adapted(put_on({"all-linear"}, "opt_post_norm")).size(), 12u)
        << "project_in and project_out are no layer's";
    EXPECT_EQ(adapted(put_on({"all-linear", "project_in"}, "opt_post_norm")).size(), 13u);
}

TEST_F(OpenAdapter, StandsAtModulesThatAreNamed) {
    const std::string q0 = "model.layers.0.self_attn.q_proj", q1 = "model.layers.1.self_attn.q_proj";
    EXPECT_THAT(adapted(put_on({"q_proj"})), ElementsAre(q0, q1));
    EXPECT_THAT(adapted(put_on({"self_attn.q_proj"})), ElementsAre(q0, q1));
    EXPECT_THAT(adapted(put_on({"layers.1.self_attn.q_proj"})), ElementsAre(q1));
    EXPECT_THAT(adapted(put_on({q0})), ElementsAre(q0));
    EXPECT_THAT(adapted(put_on({"c_proj"}, "gpt2")),
                ElementsAre("transformer.h.0.attn.c_proj", "transformer.h.0.mlp.c_proj", "transformer.h.1.attn.c_proj",
                            "transformer.h.1.mlp.c_proj"));
}

TEST_F(OpenAdapter, StandsAtModulesThatAnExpressionFits) {
    EXPECT_THAT(adapted(put_on({R"(.*\.1\.self_attn\.[qk]_proj)"})),
                ElementsAre("model.layers.1.self_attn.k_proj", "model.layers.1.self_attn.q_proj"));
    EXPECT_THAT(adapted(put_on({R"(.*\.0\..*q_proj|.*\.1\..*k_proj)"})),
                ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.k_proj"));
}

TEST_F(OpenAdapter, RefusesNamesOfNoLayer) {
    for (const char* target : {"q_projj", "head", "norm", "proj", "self_attn", R"(self_attn\..*)", ""})
        EXPECT_THAT(refused_targets({"q_proj", target}),
                    HasSubstr(fmt::format("lora_target_modules: \"{}\" is the name of no layer of this model. Try: "
                                          "down_proj, embed_tokens, gate_proj, k_proj, lm_head, o_proj, q_proj, "
                                          "up_proj, v_proj, or all-linear",
                                          target)));
    EXPECT_THAT(refused_targets({}), HasSubstr("lora_target_modules: names no layer. Try: down_proj, "));
}

TEST_F(OpenAdapter, IsNextToTheTableAndTheHeadWhereTheyAreNamed) {
    EXPECT_THAT(adapted(put_on({"lm_head"})), ElementsAre("lm_head"));
    EXPECT_THAT(adapted(put_on({"embed_tokens", "lm_head"})), ElementsAre("lm_head", "model.embed_tokens"));
    EXPECT_THAT(adapted(put_on({"wte"}, "gpt2")), ElementsAre("transformer.wte"));
    EXPECT_THAT(adapted(put_on({"lm_head"}, "gpt2")), ElementsAre("lm_head")) << "the other end of its table";
    for (const std::string& module : adapted(put_on({"all-linear"})))
        EXPECT_THAT(module, testing::HasSubstr("layers.")) << "all-linear leaves both out, as peft's does";
}

// What it would be read as is another model than peft's.
TEST_F(OpenAdapter, RefusesMagnitudesAndTiedPairsOfTheTableAndTheHead) {
    Config config;
    config.adapter = "lora";
    config.use_dora = true;
    for (const char* target : {"lm_head", "embed_tokens"}) {
        config.lora_target_modules = {"q_proj", target};
        EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }),
                    HasSubstr("has DoRA, which is implemented for linear layers other than the head. Try: "
                              "lora_target_modules without it"));
    }
    config = {};
    config.adapter = changed("use_dora", true, "llama_tables");
    EXPECT_THAT(refusal(ExitCode::model, [&] { put(config); }),
                HasSubstr("is DoRA's, which is implemented for linear layers other than the head. Try: to merge it"));
    config.adapter = changed("ensure_weight_tying", true, "granite_head");
    EXPECT_THAT(
        refusal(ExitCode::model, [&] { put(config, "granite"); }),
        HasSubstr("\"ensure_weight_tying\" is true, and lm_head has an adapter: one pair for both ends of a tied "
                  "table is not implemented"));
}

TEST_F(OpenAdapter, TrainsRowsOfTokensNextToLayersOrAlone) {
    Config config;
    config.adapter = "lora";
    config.lora_target_modules = {"q_proj"};
    config.trainable_token_indices = {"7", "lm_head=5", "3", "lm_head=0"};
    const ModelSpec model = put(config);
    EXPECT_EQ(model.adapter->tokens.at("model.embed_tokens"), (std::vector<int64_t>{7, 3}));
    EXPECT_EQ(model.adapter->tokens.at("lm_head"), (std::vector<int64_t>{5, 0}));
    config.adapter = "trainable_tokens";
    EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }),
                HasSubstr("adapter trainable_tokens has the same tokens in each table. Try: "));
    config.trainable_token_indices = {"7"};
    EXPECT_THAT(adapted(put(config)), ElementsAre("model.embed_tokens"));
    EXPECT_EQ(put_folder(peft_golden("tokens"), "gemma2").adapter->tokens.size(), 1u);
}

TEST_F(OpenAdapter, RefusesRowsOfTablesThatHaveAnAdapterOrTrainWhole) {
    Config config;
    config.adapter = "lora";
    config.lora_target_modules = {"q_proj", "embed_tokens"};
    config.trainable_token_indices = {"7"};
    EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }),
                HasSubstr("trainable_token_indices: model.embed_tokens has tokens that train alone, and an adapter"));
    config.lora_target_modules = {"q_proj", "lm_head"};
    EXPECT_NO_THROW(put(config)) << "another table";
    EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config, "qwen2"); }),
                HasSubstr("and an adapter. Try: one of the two"));
    config.lora_target_modules = {"q_proj"};
    config.modules_to_save = {"embed_tokens"};
    EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }), HasSubstr("\"modules_to_save\" trains all of it"));
}

TEST_F(OpenAdapter, RefusesTheTableAndTheHeadOfOtherKinds) {
    Config config;
    config.adapter = "ia3";
    for (const char* target : {"lm_head", "embed_tokens"}) {
        config.lora_target_modules = {target};
        EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }),
                    HasSubstr(fmt::format("\"{}\" is the name of no linear layer of this model. Try: ", target)));
    }
    EXPECT_THAT(refusal(ExitCode::usage, [&] { put(config); }),
                HasSubstr("or all-linear; tables and the head carry no adapter \"ia3\""));
}

// What peft writes of a table that it adapts has the table with it.
TEST_F(OpenAdapter, OpensFoldersWithTablesOfTheBase) {
    const ModelSpec model = put_folder(peft_golden("llama_tables"));
    EXPECT_THAT(adapted(model), testing::IsSupersetOf({"lm_head", "model.embed_tokens"}));
    EXPECT_EQ(model.adapter->of_layer("lm_head").rank, 3);
    EXPECT_EQ(model.adapter->of_layer("model.embed_tokens").scale, 5.0 / 4);
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(peft_golden("llama_tables"), "llama3"); }),
                HasSubstr("lm_head.base_layer.weight: is "));
}

// As in peft, a dot in such a pattern is any character: "q_pro." is q_proj.
TEST_F(OpenAdapter, TakesPatternsForExpressions) {
    const auto scale = [&](const char* pattern) {
        const ModelSpec model = put_folder(changed("alpha_pattern", {{pattern, 40}}));
        return model.adapter->of_layer("model.layers.1.self_attn.q_proj").scale;
    };
    EXPECT_EQ(scale("q_pro."), 20) << "40 / sqrt(4)";
    EXPECT_EQ(scale("layers.1..*q_proj"), 20);
    EXPECT_EQ(scale("self_attn.q_proj"), 20);
    EXPECT_EQ(scale("q_pro"), 3.5) << "not the whole of its end";
}

TEST_F(OpenAdapter, RefusesExpressionsThatAreNone) {
    EXPECT_THAT(
        refused_targets({"(q_proj"}),
        HasSubstr("lora_target_modules: \"(q_proj\" is not a regular expression for names of modules: missing"));
    EXPECT_THAT(refused_targets({"q_proj)|(.*"}),
                HasSubstr("\"q_proj)|(.*\" is not a regular expression for names of modules"));
}

// It would take some 2^30 steps; the limit ends it.
TEST_F(OpenAdapter, EndsExpressionsThatTakeForEver) {
    EXPECT_THAT(
        refused_targets({"(?:[a-z_.0-9]+)+[!?]"}),
        HasSubstr("\"(?:[a-z_.0-9]+)+[!?]\" is not a regular expression for names of modules: match limit exceeded"));
    EXPECT_THAT(
        refusal(ExitCode::model, [&] { put_folder(changed("target_modules", "(?:[a-z_.0-9]+)+[!?]")); }),
        HasSubstr("adapter_config.json: \"(?:[a-z_.0-9]+)+[!?]\" is not a regular expression for names of modules"));
}

TEST_F(OpenAdapter, ScalesAsItIsTold) {
    Config config;
    config.adapter = "lora";
    config.lora_r = 16;
    config.lora_alpha = 8;
    EXPECT_EQ(put(config).adapter->scale, 0.5);
    config.use_rslora = true;
    EXPECT_EQ(put(config).adapter->scale, 2.0);
    config.adapter = "ia3";
    EXPECT_EQ(put(config).adapter->scale, 1.0);
}

TEST_F(OpenAdapter, TakesARankAboveASideWithANote) {
    Config config;
    config.adapter = "lora";
    config.lora_r = 17;
    testing::internal::CaptureStderr();
    EXPECT_EQ(put(config).adapter->rank, 17);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("note: the rank is above the smaller side of 4 layers, which a lower one serves as well"));
}

TEST_F(OpenAdapter, GivesModulesWhatThePatternsOfTheFileSay) {
    const std::string ranks = peft_golden("llama_ranks");
    const AdapterSettings settings = *put_folder(ranks).adapter;
    EXPECT_EQ(settings.of_layer("model.layers.1.self_attn.q_proj").rank, 2);
    EXPECT_EQ(settings.of_layer("model.layers.1.self_attn.q_proj").scale, 5.0 / 2);
    EXPECT_EQ(settings.of_layer("model.layers.0.self_attn.k_proj").scale, 3.0 / 4);
    EXPECT_EQ(settings.of_layer("model.layers.1.self_attn.k_proj").scale, 7.0 / 4);
    EXPECT_EQ(settings.of_layer("model.layers.1.mlp.up_proj").rank, 9);
    EXPECT_THAT(refusal(ExitCode::model,
                        [&] {
                            put_folder(changed("rank_pattern", {{"q_proj(", 2}}));
                        }),
                HasSubstr("\"q_proj(\" is not a regular expression"));
}

TEST_F(OpenAdapter, OpensFolders) {
    const ModelSpec model = put_folder(peft_golden("llama3_regex"), "llama3");
    EXPECT_TRUE(has_numbers_);
    EXPECT_EQ(model.adapter->scale, 1.75);
    EXPECT_THAT(adapted(model), ElementsAre("model.layers.1.self_attn.o_proj", "model.layers.1.self_attn.q_proj"));
    EXPECT_EQ(put_folder(peft_golden("llama_rslora")).adapter->scale, 3.5);
    EXPECT_EQ(put_folder(changed("target_modules", "all-linear")).adapter->rank, 4);
    EXPECT_EQ(put_folder(changed("target_modules", nullptr)).adapter->rank, 4);
    EXPECT_EQ(put_folder(changed("target_modules", R"(model\.layers\.\d+\.self_attn\.[qv]_proj)")).adapter->rank, 4);
}

TEST_F(OpenAdapter, RefusesFoldersThatAreNotThere) {
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder("runs/none/final"); }),
                HasSubstr("runs/none/final: there is no such adapter folder"));
}

TEST_F(OpenAdapter, RefusesFoldersOfAnotherBase) {
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(peft_golden("qwen3")); }),
                HasSubstr("adapter_model.safetensors: tensor base_model.model.model.layers.0."));
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(peft_golden("gpt2")); }),
                HasSubstr("it belongs to no layer of this model"));
}

TEST_F(OpenAdapter, RefusesTargetsThatLeaveOutTrainedModules) {
    const char* wanted =
        "adapter_config.json: \"target_modules\" does not name model.layers.0.self_attn.v_proj, but "
        "adapter_model.safetensors has its tensors. Try: the two files of one adapter";
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(changed("target_modules", {"q_proj"})); }),
                HasSubstr(wanted));
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(changed("target_modules", R"(.*\.q_proj)")); }),
                HasSubstr(wanted));
    EXPECT_THAT(refusal(ExitCode::model, [&] { put_folder(changed("target_modules", "v_proj")); }),
                HasSubstr("does not name model.layers.0.self_attn.q_proj"))
        << "one word is an expression for the whole name, as in peft";
}

TEST_F(OpenAdapter, RefusesMalformedTargets) {
    EXPECT_THAT(
        refusal(ExitCode::model, [&] { put_folder(changed("target_modules", "(q_proj")); }),
        HasSubstr("adapter_config.json: \"(q_proj\" is not a regular expression for names of modules: missing"));
}

}  // namespace
}  // namespace windlass
