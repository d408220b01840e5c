// Adapters through the real program: trained, evaluated, exported and merged as a user would.
#include "tests/cli/adapters_fixture.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(Adapters, AreFoundByTheirFolderTheirRunOrBesideTheirModel) {
    must_succeed(sandbox_.train(settings({{"save_steps", "4"}})));
    const std::string base = sandbox_.model();
    const double learnt = loss(final_folder());
    EXPECT_LT(learnt, loss(base) - 0.05);
    EXPECT_EQ(loss(sandbox_.out()), learnt);
    EXPECT_EQ(loss(sandbox_.out() + "/checkpoint-8"), learnt);
    EXPECT_EQ(loss(base, {"--adapter", final_folder()}), learnt);
    EXPECT_EQ(loss(base, {"--adapter", sandbox_.out()}), learnt);
    EXPECT_NE(loss(sandbox_.out() + "/checkpoint-4"), learnt);
    const auto text = [&](const std::vector<std::string>& words) {
        std::vector<std::string> all = {"generate", "--prompt", "ab", "--max-new-tokens", "8", "--quiet"};
        all.insert(all.begin() + 1, words.begin(), words.end());
        return must_succeed(sandbox_.windlass(all)).out;
    };
    EXPECT_EQ(text({base, "--adapter", final_folder()}), text({final_folder()}));
}

TEST_F(Adapters, NextToWholeWeightsAreNotUsedAndNotCopied) {
    must_succeed(sandbox_.train(settings()));
    const std::string base = sandbox_.model();
    const double before = loss(base);
    for (const char* const name : {"adapter_config.json", "adapter_model.safetensors"})
        fs::copy(final_folder() + "/" + name, base + "/" + name);
    write_bytes(base + "/quantize_config.json", "{}");
    Settings next = sandbox_.training();
    next["output_dir"] = sandbox_ / "next";
    const Finished done = must_succeed(sandbox_.train(next));
    EXPECT_THAT(done.err, HasSubstr(fmt::format("note: {} also holds adapter_config.json: this adapter is not used; "
                                                "--adapter {} would use it\n",
                                                base, base)));
    for (const char* const folder : {"next/final", "next/checkpoint-2/model"}) {
        EXPECT_FALSE(fs::exists(sandbox_ / folder + "/adapter_config.json")) << folder;
        EXPECT_FALSE(fs::exists(sandbox_ / folder + "/quantize_config.json")) << folder;
    }
    EXPECT_EQ(loss(base), before);
    EXPECT_EQ(loss(base, {"--adapter", base}), loss(final_folder()));
}

// axolotl writes the base's config.json into an adapter's folder.
TEST_F(Adapters, NextToSettingsOfAModelAloneAreTaken) {
    must_succeed(sandbox_.train(settings()));
    const double learnt = loss(final_folder());
    fs::copy(sandbox_.model() + "/config.json", final_folder() + "/config.json");
    EXPECT_EQ(loss(final_folder()), learnt);
    edit_json(final_folder() + "/adapter_config.json",
              [&](Json& json) { json["base_model_name_or_path"] = final_folder(); });
    EXPECT_THAT(refusal(sandbox_.windlass({"eval", final_folder(), "--data", sandbox_.token_rows()}), kModel),
                HasSubstr("as its base, which is an adapter too"));
}

TEST_F(Adapters, CheckpointsHoldThemAndNoWeightOfTheBase) {
    must_succeed(sandbox_.train(settings()));
    const std::string checkpoint = sandbox_.out() + "/checkpoint-8";
    EXPECT_FALSE(fs::exists(checkpoint + "/model"));
    EXPECT_EQ(read_bytes(checkpoint + "/adapter/adapter_model.safetensors"), read_bytes(adapter_file()));
    const Tensors tensors = read_safetensors(adapter_file());
    for (const auto& [name, tensor] : tensors.header.items()) {
        if (name != "__metadata__") {
            EXPECT_THAT(name, testing::MatchesRegex("base_model\\.model\\.model\\.layers\\..*\\.lora_[AB]\\.weight"));
        }
    }
}

TEST_F(Adapters, AreExportedAndMerged) {
    must_succeed(sandbox_.train(settings()));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "adapter"}));
    EXPECT_EQ(read_bytes(sandbox_ / "adapter/adapter_model.safetensors"), read_bytes(adapter_file()));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--dtype", "f32", "--to", sandbox_ / "f32"}));
    // One rounding of each weight to f32, which sums differently from two products.
    EXPECT_NEAR(loss(sandbox_ / "f32"), loss(final_folder()), 1e-5);
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "merged"}));
    const Json was = read_safetensors(sandbox_.model() + "/model.safetensors").header;
    EXPECT_EQ(read_safetensors(sandbox_ / "merged/model.safetensors").header, was);
    EXPECT_EQ(read_bytes(sandbox_ / "merged/config.json"), read_bytes(sandbox_.model() + "/config.json"));
    // A merged model is a model: it trains on.
    Settings more = sandbox_.training();
    more["model"] = sandbox_ / "merged";
    must_succeed(sandbox_.train(more, {"--overwrite"}));
}

// LSP tunes a model: its runs end with one. The adapter is what computes the same beside the base.
TEST_F(Adapters, OfProjectorsEndAsAModelAndAreExportedAsADelta) {
    must_succeed(
        sandbox_.train(settings({{"adapter", "lsp"}, {"lora_r", "16"}, {"lsp_d", "24"}, {"lsp_refresh", "0"}})));
    EXPECT_FALSE(fs::exists(adapter_file()));
    const double learnt = loss(final_folder()), before = loss(sandbox_.model());
    EXPECT_LT(learnt, before - 0.05);
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "whole"}));
    EXPECT_EQ(read_bytes(sandbox_ / "whole/model.safetensors"), read_bytes(final_folder() + "/model.safetensors"));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--delta", "--to", sandbox_ / "delta"}));
    const Tensors tensors = read_safetensors(sandbox_ / "delta/adapter_model.safetensors");
    for (const auto& [name, tensor] : tensors.header.items()) {
        if (name != "__metadata__") {
            EXPECT_THAT(name, testing::MatchesRegex("base_model\\.model\\.model\\.layers\\..*\\.lsp_[PQS]"));
        }
    }
    const Json config = Json::parse(read_bytes(sandbox_ / "delta/adapter_config.json"));
    EXPECT_EQ(config.at("peft_type"), "LSP");
    EXPECT_EQ(config.at("d"), 24);
    EXPECT_EQ(config.at("r"), 8);
    // One rounding of each weight to f32, which sums differently from three products.
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--dtype", "f32", "--to", sandbox_ / "f32"}));
    EXPECT_NEAR(loss(sandbox_.model(), {"--adapter", sandbox_ / "delta"}), loss(sandbox_ / "f32"), 1e-5);
    EXPECT_NEAR(loss(sandbox_.out() + "/checkpoint-8"), loss(sandbox_ / "f32"), 1e-5);
    must_succeed(sandbox_.windlass({"export", sandbox_.out() + "/checkpoint-8", "--to", sandbox_ / "again"}));
    EXPECT_EQ(read_bytes(sandbox_ / "again/model.safetensors"), read_bytes(final_folder() + "/model.safetensors"));
}

// What refreshes wrote into the weights is in every model that is saved, and in no delta.
TEST_F(Adapters, OfRefreshedProjectorsAreModelsEverywhere) {
    must_succeed(sandbox_.train(
        settings({{"adapter", "lsp"}, {"lora_r", "16"}, {"lsp_d", "24"}, {"lsp_refresh", "3"}, {"lsp_samples", "8"}})));
    const double learnt = loss(final_folder()), before = loss(sandbox_.model());
    EXPECT_LT(learnt, before - 0.05);
    EXPECT_NEAR(loss(sandbox_.out() + "/checkpoint-8"), learnt, 1e-5);
    for (const char* const source : {"", "/checkpoint-8"}) {
        must_succeed(sandbox_.windlass({"export", sandbox_.out() + source, "--to", sandbox_ / "again", "--overwrite"}));
        EXPECT_EQ(read_bytes(sandbox_ / "again/model.safetensors"), read_bytes(final_folder() + "/model.safetensors"));
        EXPECT_THAT(
            refusal(sandbox_.windlass({"export", sandbox_.out() + source, "--delta", "--to", sandbox_ / "delta"}),
                    kUsage),
            HasSubstr("merged its projectors into the weights"));
    }
    for (const int step : {1, 4, 7}) {
        const Json refresh = Json::parse(read_bytes(sandbox_.out() + fmt::format("/refresh-{}.json", step)));
        EXPECT_EQ(refresh.at("step"), step);
        ASSERT_GT(refresh.at("layers").size(), 0u);
        for (const Json& layer : refresh.at("layers")) EXPECT_GT(layer.at("bias_before"), 0) << layer.dump();
    }
}

// Files from outside are hostile: what projectors are made of is bounded before it is used.
TEST_F(Adapters, OfProjectorsAreRefusedWhereTheirFilesDoNotFit) {
    must_succeed(sandbox_.train(
        settings({{"adapter", "lsp"}, {"lora_r", "16"}, {"lsp_d", "24"}, {"lsp_refresh", "0"}, {"max_steps", "1"}})));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--delta", "--to", sandbox_ / "delta"}));
    const std::string path = sandbox_ / "delta/adapter_config.json";
    const Json config = Json::parse(read_bytes(path));
    const auto with = [&](const char* key, const Json& value) {
        Json changed = config;
        changed[key] = value;
        if (value.is_null()) changed.erase(key);
        write_bytes(path, changed.dump());
        return refusal(sandbox_.windlass({"eval", sandbox_.model(), "--adapter", sandbox_ / "delta", "--data",
                                          sandbox_.token_rows()}),
                       kModel);
    };
    EXPECT_THAT(with("d", 0), HasSubstr("\"d\" is 0, expected an integer from 1 to 65535"));
    EXPECT_THAT(with("r", 1 << 20), HasSubstr("\"r\" is 1048576, expected an integer from 1 to 64"));
    EXPECT_THAT(with("r", 4), HasSubstr("expected [")) << "numbers of another shape";
    EXPECT_THAT(with("d", 25), HasSubstr("expected [25, 25]"));
    EXPECT_THAT(with("seed", -1), HasSubstr("\"seed\" is -1"));
    EXPECT_THAT(with("seed", nullptr), HasSubstr("has no \"seed\""));
}

// Of a base in 4 bits a merged model is the base with what was learnt, or what the run saw.
TEST_F(Adapters, AreMergedIntoWhatTheRunComputedWithWhereAskedTo) {
    // Matrices without an adapter are rounded too.
    must_succeed(sandbox_.train(settings({{"adapter", "qlora"}, {"lora_target_modules", "[q_proj, up_proj]"}})));
    const auto merged = [&](const std::string& as) {
        must_succeed(
            sandbox_.windlass({"export", sandbox_.out(), "--merged", as, "--dtype", "f32", "--to", sandbox_ / as}));
        return loss(sandbox_ / as);
    };
    EXPECT_NEAR(merged("computed"), loss(final_folder(), {"weight_storage=nf4"}), 1e-5);
    EXPECT_NEAR(merged("base"), loss(final_folder()), 1e-5);
    EXPECT_NE(read_bytes(sandbox_ / "base/model.safetensors"), read_bytes(sandbox_ / "computed/model.safetensors"));
}

// From a working store as from a checkpoint.
TEST_F(Adapters, OnDiskAreMergedAsThoseInMemory) {
    must_succeed(sandbox_.train(settings({{"adapter", "qlora"}})));
    Settings on_disk = settings({{"adapter", "qlora"}, {"output_dir", sandbox_ / "disk"}, {"save_steps", "null"}});
    on_disk.insert({{"policy", "three_tier"}, {"ssd_dir", sandbox_ / "ssd"}});
    must_succeed(sandbox_.train(on_disk));
    const auto merged = [&](const std::string& run, const std::string& as) {
        const std::string target = sandbox_ / (as + "-of-" + run);
        must_succeed(sandbox_.windlass({"export", sandbox_ / run, "--merged", as, "--to", target}));
        return read_bytes(target + "/model.safetensors");
    };
    for (const char* as : {"base", "computed"}) EXPECT_TRUE(merged("disk", as) == merged("out", as)) << as;
}

// A key that was ignored is ignored where a checkpoint is merged, too.
TEST_F(Adapters, AreMergedIntoABaseWithKeysThatWereIgnored) {
    edit_json(sandbox_.model() + "/config.json", [](Json& config) { config["attention_bias_of_mine"] = 2; });
    edit_json(sandbox_.model() + "/config.json", [](Json& config) { config["auto_map"] = {{"AutoModel", "x.Y"}}; });
    must_succeed(sandbox_.train(settings({{"ignore_config_keys", "[attention_bias_of_mine, auto_map]"}})));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "merged"}));
}

// A base in f32 that was computed with in bf16: no number of what was computed with has more than 16 bits.
TEST_F(Adapters, AreMergedIntoNumbersOfTheTypeThatTheRunComputedIn) {
    const std::string base = sandbox_.model("llama3");
    const Settings bf16 = settings({{"model", base}, {"lora_r", "2"}, {"learning_rate", "0"}, {"dtype", "bf16"}});
    must_succeed(sandbox_.train(bf16));
    const auto any_is_wide = [&](const std::string& as) {
        must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", as, "--to", sandbox_ / as}));
        const std::string data = read_safetensors(sandbox_ / as + "/model.safetensors").data;
        for (size_t at = 0; at < data.size(); at += 4) {
            if (data[at] != 0 || data[at + 1] != 0) return true;
        }
        return false;
    };
    EXPECT_TRUE(any_is_wide("base"));
    EXPECT_FALSE(any_is_wide("computed"));
}

TEST_F(Adapters, GoOnFromAFolderWithTheModelOfItsBase) {
    must_succeed(sandbox_.train(settings()));
    Settings more = settings({{"adapter", final_folder()}, {"output_dir", sandbox_ / "more"}, {"learning_rate", "0"}});
    more.erase("lora_r");
    must_succeed(sandbox_.train(more));
    EXPECT_EQ(read_bytes(sandbox_ / "more/final/adapter_model.safetensors"), read_bytes(adapter_file()));
    more["model"] = final_folder();
    EXPECT_THAT(refusal(sandbox_.train(more, {"--overwrite"}), kUsage), HasSubstr("would be a second"));
    more.erase("adapter");
    must_succeed(sandbox_.train(more, {"--overwrite"}));
    EXPECT_EQ(read_bytes(sandbox_ / "more/final/adapter_model.safetensors"), read_bytes(adapter_file()));
}

TEST_F(Adapters, WaysOutOfWhatTheyAreNot) {
    must_succeed(sandbox_.train(settings()));
    EXPECT_THAT(
        refusal(sandbox_.windlass({"export", sandbox_.out(), "--dtype", "bf16", "--to", sandbox_ / "x"}), kUsage),
        HasSubstr("Try: --merged"));
    Settings whole = sandbox_.training();
    whole["output_dir"] = sandbox_ / "whole";
    must_succeed(sandbox_.train(whole));
    EXPECT_THAT(refusal(sandbox_.windlass({"export", sandbox_ / "whole", "--merged", "--to", sandbox_ / "x"}), kUsage),
                HasSubstr("trained no adapter"));
    EXPECT_THAT(
        refusal(sandbox_.windlass({"eval", sandbox_.model(), "--adapter", "lora", "--data", sandbox_.token_rows()}),
                kUsage),
        HasSubstr("a folder with adapter_config.json"));
    edit_json(final_folder() + "/adapter_config.json",
              [&](Json& config) { config["base_model_name_or_path"] = sandbox_ / "gone"; });
    EXPECT_THAT(refusal(sandbox_.windlass({"eval", final_folder(), "--data", sandbox_.token_rows()}), kModel),
                HasSubstr("which is not there"));
}

TEST_F(Adapters, NameABaseInTheCacheByItsId) {
    const std::string snapshot = sandbox_ / "hub/models--some--tiny/snapshots/0123abcd";
    fs::create_directories(fs::path(snapshot).parent_path());
    fs::create_directories(sandbox_ / "hub/models--some--tiny/refs");
    fs::copy(sandbox_.model(), snapshot);
    write_bytes(sandbox_ / "hub/models--some--tiny/refs/main", "0123abcd");
    const auto in_cache = [&](Command command) {
        command.environment["HF_HUB_CACHE"] = sandbox_ / "hub";
        return command;
    };
    must_succeed(in_cache(sandbox_.train(settings({{"model", "some/tiny"}}))));
    const Json config = read_json(final_folder() + "/adapter_config.json");
    EXPECT_EQ(config.at("base_model_name_or_path"), "some/tiny");
    EXPECT_EQ(config.at("revision"), "0123abcd");
    must_succeed(in_cache(sandbox_.windlass({"eval", final_folder(), "--data", sandbox_.token_rows()})));
}

// What of an adapter is not trained is in no store's versions, but in every file of it.
TEST_F(Adapters, AreWrittenWithWhatOfThemIsFrozen) {
    const Settings on_disk = {{"save_steps", "null"}, {"policy", "three_tier"}, {"ssd_dir", sandbox_ / "ssd"}};
    Settings frozen = settings({{"freeze", "*lora_A*"}, {"max_steps", "4"}});
    for (const auto& [key, value] : on_disk) frozen[key] = value;
    must_succeed(sandbox_.train(frozen));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "exported"}));
    EXPECT_EQ(read_bytes(sandbox_ / "exported/adapter_model.safetensors"), read_bytes(adapter_file()));
    must_succeed(
        sandbox_.train(settings({{"freeze", "*lora_A*"}, {"max_steps", "4"}, {"output_dir", sandbox_ / "memory"}})));
    EXPECT_EQ(read_bytes(sandbox_ / "memory/final/adapter_model.safetensors"), read_bytes(adapter_file()));
    EXPECT_EQ(read_bytes(sandbox_ / "memory/checkpoint-4/adapter/adapter_model.safetensors"),
              read_bytes(adapter_file()));
}

TEST_F(Adapters, OfARunWithALogAreReplayed) {
    must_succeed(sandbox_.train(settings({{"method", "zeroth_order"}, {"learning_rate", "1e-4"}})));
    const std::vector<std::string> words = {"replay", sandbox_.model(), sandbox_.out() + "/trajectory.wlt", "--to",
                                            sandbox_ / "again"};
    must_succeed(sandbox_.windlass(words));
    EXPECT_EQ(read_bytes(sandbox_ / "again/adapter_model.safetensors"), read_bytes(adapter_file()));
}

TEST_F(Adapters, OfAnotherBaseAreRefusedByItsChecksum) {
    must_succeed(sandbox_.train(settings()));
    fs::copy(sandbox_.model(), sandbox_ / "other");
    flip_byte(sandbox_ / "other/model.safetensors", -1);
    const std::string refused = refusal(
        sandbox_.windlass({"eval", sandbox_ / "other", "--adapter", final_folder(), "--data", sandbox_.token_rows()}),
        kModel);
    EXPECT_THAT(refused, HasSubstr("was trained over a base of checksum"));
    EXPECT_THAT(refused, HasSubstr("Try: the base that it was trained over"));
}

}  // namespace
}  // namespace windlass::cli
