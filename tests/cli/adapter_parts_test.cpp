// What an adapter may be next to, and what its parts may be: modules that train whole, ranks by module, tables,
// magnitudes.
#include "tests/cli/adapters_fixture.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;

class AdapterParts : public Adapters {};

// Modules that train whole are in the adapter's folder, and in a merged model, which has two tables where the base ties
// them.
TEST_F(AdapterParts, TrainWholeModulesToo) {
    for (const char* const name : {"llama3", "llama"}) {
        const std::string base = sandbox_.model(name), run = sandbox_ / (std::string("run-") + name);
        const Finished trained = must_succeed(sandbox_.train(settings(
            {{"model", base}, {"output_dir", run}, {"modules_to_save", "[lm_head, model.norm]"}, {"lora_r", "2"}})));
        const Tensors tensors = read_safetensors(run + "/final/adapter_model.safetensors");
        EXPECT_TRUE(tensors.header.contains("base_model.model.lm_head.weight"));
        EXPECT_TRUE(tensors.header.contains("base_model.model.model.norm.weight"));
        const double learnt = loss(run + "/final");
        EXPECT_LT(learnt, loss(base) - 0.05);
        const std::string merged = run + "-merged";
        const bool is_tied = std::string(name) == "llama3";
        EXPECT_THAT(trained.err, HasSubstr("windlass export " + run + " --merged --to " + merged + "\n"));
        must_succeed(sandbox_.windlass({"export", run, "--merged", "--dtype", "f32", "--to", merged}));
        EXPECT_NEAR(loss(merged), learnt, 1e-5) << "one rounding of each weight";
        EXPECT_EQ(loss(run + "/checkpoint-8"), learnt);
        EXPECT_EQ(trained.err.find("note: lm_head trains apart") != std::string::npos, is_tied) << trained.err;
        EXPECT_EQ(Json::parse(read_bytes(merged + "/config.json")).at("tie_word_embeddings"), false);
        Settings more = settings({{"model", base}, {"output_dir", run + "-more"}, {"adapter", run + "/final"}});
        more.erase("lora_r");
        must_succeed(sandbox_.train(more));
        EXPECT_LT(loss(run + "-more/final"), learnt) << "it trains on";
    }
}

// The commands that a run ends with work: none merges what cannot be merged.
TEST_F(AdapterParts, OfOneEndOfATiedTableAreNotSaidToMerge) {
    const Finished trained = must_succeed(sandbox_.train(
        settings({{"model", sandbox_.model("llama3")}, {"lora_target_modules", "[lm_head]"}, {"max_steps", "1"}})));
    EXPECT_THAT(trained.err, testing::Not(HasSubstr("--merged")));
    EXPECT_THAT(refusal(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "merged"}), kUsage),
                HasSubstr("one end of a tied table"));
}

// Rows of single tokens train, are written, continued, merged (tied or not), and are what a GGUF file has.
TEST_F(AdapterParts, TrainRowsOfTokens) {
    for (const char* const name : {"llama3", "llama"}) {
        const std::string base = sandbox_.model(name), run = sandbox_ / (std::string("run-") + name);
        const Finished trained = must_succeed(sandbox_.train(settings({{"model", base},
                                                                       {"output_dir", run},
                                                                       {"lora_target_modules", "[q_proj]"},
                                                                       {"trainable_token_indices", "[1, 30, 12]"}})));
        const Tensors tensors = read_safetensors(run + "/final/adapter_model.safetensors");
        EXPECT_TRUE(
            tensors.header.contains("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"));
        const double learnt = loss(run + "/final");
        EXPECT_LT(learnt, loss(base) - 0.02);
        const std::string merged = run + "-merged";
        EXPECT_THAT(trained.err, HasSubstr("windlass export " + run + " --merged --to " + merged + "\n"));
        must_succeed(sandbox_.windlass({"export", run, "--merged", "--dtype", "f32", "--to", merged}));
        EXPECT_NEAR(loss(merged), learnt, 1e-5) << "one rounding of each weight";
        EXPECT_EQ(loss(run + "/checkpoint-8"), learnt);
        Settings more = settings({{"model", base}, {"output_dir", run + "-more"}, {"adapter", run + "/final"}});
        for (const char* const key : {"lora_r", "lora_target_modules"}) more.erase(key);
        must_succeed(sandbox_.train(more));
        EXPECT_LT(loss(run + "-more/final"), learnt) << "it trains on";
    }
}

// Rows replace the base's: merged, they are those of the adapter's folder, whatever the run kept of the base.
TEST_F(AdapterParts, OfTokensAreMergedAsTheyAreWritten) {
    const Settings over_8_bits = settings({{"adapter", "trainable_tokens"},
                                           {"trainable_token_indices", "[1, 30, 12]"},
                                           {"weight_storage", "f8"},
                                           {"max_steps", "2"}});
    Settings alone = over_8_bits;
    alone.erase("lora_r");
    must_succeed(sandbox_.train(alone));
    const std::string merged = sandbox_ / "merged";
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--dtype", "f32", "--to", merged}));
    EXPECT_NEAR(loss(merged), loss(final_folder()), 1e-6);
}

// No pass gives directions to what is frozen: a sparse projector has none.
TEST_F(AdapterParts, AreTrainedByEachMethodWithoutABackwardPass) {
    for (const char* const adapter : {"lsp", "ia3", "lora"}) {
        for (const char* const method : {"forward_gradient", "zeroth_order"}) {
            Settings with = settings({{"adapter", adapter}, {"method", method}, {"max_steps", "1"}});
            with.erase("lora_r");
            if (adapter == std::string("lsp")) with["lsp_refresh"] = "0", with["lsp_d"] = "16";
            must_succeed(sandbox_.train(with, {"--overwrite"}));
        }
    }
}

TEST_F(AdapterParts, OfTokensAreSaidByModuleAndRefusedWhereTheyAreNone) {
    const auto refused = [&](const std::string& adapter, const std::string& tokens) {
        Settings with = settings({{"adapter", adapter}, {"trainable_token_indices", tokens}});
        with.erase("lora_r");
        return refusal(sandbox_.train(with, {"--overwrite"}), kUsage);
    };
    EXPECT_THAT(refused("lora", "[tool]"),
                HasSubstr("trainable_token_indices: \"tool\" is no id of a token. Try: 5, or for one module "
                          "\"lm_head=5\""));
    EXPECT_THAT(refused("lora", "[100000]"), HasSubstr("100000 is no token: the model has "));
    EXPECT_THAT(refused("ia3", "[5]"), HasSubstr("trainable_token_indices has no meaning for adapter ia3"));
    EXPECT_THAT(refused("trainable_tokens", "[]"), HasSubstr("adapter trainable_tokens trains no token. Try: "));
    Settings alone =
        settings({{"adapter", "trainable_tokens"}, {"trainable_token_indices", "[5]"}, {"max_steps", "1"}});
    alone.erase("lora_r");
    must_succeed(sandbox_.train(alone, {"--overwrite"}));
}

TEST_F(AdapterParts, RefuseWholeModulesThatAreNotThere) {
    EXPECT_THAT(refusal(sandbox_.train(settings({{"modules_to_save", "[lm_tail]"}})), kUsage),
                HasSubstr("modules_to_save: \"lm_tail\" is the name of no module of this model. Try: embed_tokens"));
    EXPECT_THAT(refusal(sandbox_.train(settings({{"modules_to_save", "[q_proj]"}})), kUsage),
                HasSubstr("has an adapter, and \"modules_to_save\" trains it whole. Try: "));
}

TEST_F(AdapterParts, HaveRanksAndScalesOfTheirOwn) {
    must_succeed(sandbox_.train(settings({{"rank_pattern", "[q_proj=2, \"layers.1.*=3\"]"}, {"max_steps", "1"}})));
    const Json tensors = read_safetensors(adapter_file()).header;
    const auto rank = [&](const std::string& module) {
        return tensors.at("base_model.model.model." + module + ".lora_A.weight").at("shape").at(0).get<int>();
    };
    EXPECT_EQ(rank("layers.0.self_attn.q_proj"), 2);
    EXPECT_EQ(rank("layers.1.self_attn.q_proj"), 2) << "the first pattern that fits";
    EXPECT_EQ(rank("layers.1.mlp.up_proj"), 3);
    EXPECT_EQ(rank("layers.0.mlp.up_proj"), 4);
    EXPECT_THAT(refusal(sandbox_.train(settings({{"alpha_pattern", "[qq_proj=2]"}}), {"--overwrite"}), kUsage),
                HasSubstr("alpha_pattern: \"qq_proj\" is the first pattern that fits for no layer with an adapter"));
    EXPECT_THAT(refusal(sandbox_.train(settings({{"rank_pattern", "[q_proj=2.5]"}}), {"--overwrite"}), kUsage),
                HasSubstr("rank_pattern: \"q_proj=2.5\": a rank is a whole number"));
}

// The base's table is not tied: merged, both ends are what they were with their pairs.
TEST_F(AdapterParts, OfTheTableAndTheHeadAreTrainedWrittenAndMerged) {
    must_succeed(sandbox_.train(settings({{"lora_target_modules", "[q_proj, embed_tokens, lm_head]"}})));
    const double learnt = loss(final_folder());
    EXPECT_LT(learnt, loss(sandbox_.model()) - 0.05);
    const Json header = read_safetensors(adapter_file()).header;
    for (const char* const part : {"model.embed_tokens.lora_embedding_A", "model.embed_tokens.lora_embedding_B",
                                   "lm_head.lora_A.weight", "lm_head.lora_B.weight"})
        EXPECT_TRUE(header.contains(fmt::format("base_model.model.{}", part))) << part;
    EXPECT_EQ(Json::parse(read_bytes(final_folder() + "/adapter_config.json")).at("target_modules"),
              Json({"embed_tokens", "lm_head", "q_proj"}));
    must_succeed(sandbox_.windlass({"generate", final_folder(), "--prompt", "ab", "--max-new-tokens", "8", "--quiet"}));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--dtype", "f32", "--to", sandbox_ / "f32"}));
    EXPECT_NEAR(loss(sandbox_ / "f32"), learnt, 1e-5);
    Settings further = settings({{"adapter", final_folder()}, {"output_dir", sandbox_ / "further"}});
    for (const char* const key : {"lora_r", "lora_alpha", "lora_target_modules"}) further.erase(key);
    must_succeed(sandbox_.train(further));
    EXPECT_LT(loss(sandbox_ / "further/final"), learnt);
}

// DoRA: what is exported, merged and trained further is what was learnt, over a base in 4 bits too.
TEST_F(AdapterParts, WithMagnitudesAreExportedAndMerged) {
    must_succeed(sandbox_.train(settings({{"use_dora", "true"}, {"adapter", "qlora"}})));
    const Json names = read_safetensors(adapter_file()).header;
    EXPECT_TRUE(names.contains("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector"));
    EXPECT_EQ(read_json(final_folder() + "/adapter_config.json")["use_dora"], true);
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "adapter"}));
    EXPECT_EQ(read_bytes(sandbox_ / "adapter/adapter_model.safetensors"), read_bytes(adapter_file()));
    const auto merged = [&](const std::string& as) {
        must_succeed(
            sandbox_.windlass({"export", sandbox_.out(), "--merged", as, "--dtype", "f32", "--to", sandbox_ / as}));
        return loss(sandbox_ / as);
    };
    EXPECT_NEAR(merged("computed"), loss(final_folder(), {"weight_storage=nf4"}), 1e-5);
    EXPECT_NEAR(merged("base"), loss(final_folder()), 1e-5);
    EXPECT_LT(loss(final_folder()), loss(sandbox_.model()) - 0.05);
    must_succeed(sandbox_.train(settings({{"adapter", final_folder()},
                                          {"lora_r", "16"},
                                          {"output_dir", sandbox_ / "further"},
                                          {"learning_rate", "1e-3"}})));
    EXPECT_LT(loss(sandbox_ / "further"), loss(final_folder()));
}

// What a log is replayed from are magnitudes of the weights as the run kept them.
TEST_F(AdapterParts, WithMagnitudesAreReplayed) {
    must_succeed(sandbox_.train(
        settings({{"method", "zeroth_order"}, {"adapter", "qlora"}, {"use_dora", "true"}, {"learning_rate", "1e-4"}})));
    must_succeed(sandbox_.windlass(
        {"replay", sandbox_.model(), sandbox_.out() + "/trajectory.wlt", "--to", sandbox_ / "again"}));
    EXPECT_EQ(read_bytes(sandbox_ / "again/adapter_model.safetensors"), read_bytes(adapter_file()));
}

}  // namespace
}  // namespace windlass::cli
