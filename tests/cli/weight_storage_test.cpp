// Runs that keep matrices in 8 bits, through the real program: undone, branched, exported, loaded again; and whom they
// refuse.
#include <gmock/gmock.h>

#include <filesystem>

#include "tensor/e4m3.h"
#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Setup kSetup{"llama_tiny", "zeroth_order", false, "", true};

class WeightStorage : public testing::Test {
  protected:
    Settings settings(int64_t steps, const Settings& changes = {}) {
        Settings all = settings_of(sandbox_, kSetup, steps);
        all["lr_scheduler_type"] = "constant_with_warmup";
        for (const auto& [key, value] : changes) all[key] = value;
        return all;
    }
    Sandbox sandbox_;
};

// bf16 has every number that was kept; matrices of at most 254 different ones.
TEST_F(WeightStorage, WhatIsSavedIsWhatWasKept) {
    must_succeed(sandbox_.train(settings(5, {{"save_steps", "3"}})));
    for (const auto& [name, bytes] : weights_in(sandbox_.out() + "/final")) {
        std::set<uint16_t> numbers;
        for (size_t at = 0; at < bytes.size(); at += 2)
            numbers.insert(
                static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1]) << 8));
        if (name.find("norm") != std::string::npos) continue;
        EXPECT_LE(numbers.size(), 254u) << name;
        for (const uint16_t number : numbers) EXPECT_EQ(number & 0xf, 0) << name << ": three bits of mantissa";
    }
    must_succeed(sandbox_.windlass({"export", sandbox_.out() + "/checkpoint-3", "--to", sandbox_ / "exported"}));
    EXPECT_TRUE(weights_in(sandbox_ / "exported") == weights_in(sandbox_.out() + "/checkpoint-3/model"));
    const Finished said = must_succeed(sandbox_.windlass(
        {"generate", "--model", sandbox_.out() + "/final", "--prompt", "ab", "--max-new-tokens", "3"}));
    EXPECT_EQ(said.code, 0);
}

// In memory without a stop, and on disk, behind the log where the kill fell between the two.
TEST_F(WeightStorage, AKilledRunOnDiskHasTheBitsOfOneInMemory) {
    constexpr int64_t kSteps = 12;
    const Outcome expected = uninterrupted(kSetup, kSteps);
    const Settings on_disk = {{"policy", "three_tier"},
                              {"ssd_dir", sandbox_ / "ssd"},
                              {"writeback_steps", "3"},
                              {"lr_scheduler_type", "linear"}};
    kill_after(sandbox_, settings(kSteps, on_disk), {}, 5);
    must_succeed(sandbox_.train(settings(kSteps, on_disk), {"--resume"}));
    expect_same(outcome_of(sandbox_), expected);
    EXPECT_TRUE(replayed(sandbox_, kSetup, kSteps) == expected.weights);
}

TEST_F(WeightStorage, IsUndoneAndBranchedAndGoesOn) {
    must_succeed(sandbox_.train(settings(8, {{"save_steps", "4"}})));
    const Outcome straight = outcome_of(sandbox_);
    const auto branch = [&](const char* name, const char* from) {
        must_succeed(
            sandbox_.train(settings(8, {{"output_dir", sandbox_ / name}, {"branch_from", sandbox_.out() + from}})));
        return weights_in(sandbox_ / name + "/final");
    };
    EXPECT_TRUE(branch("early", "@2") == straight.weights);
    EXPECT_TRUE(branch("late", "@6") == straight.weights);
    must_succeed(sandbox_.train(settings(8, {{"save_steps", "4"}}), {"--resume=6"}));
    expect_same(outcome_of(sandbox_), straight);
    // A log that begins with a checkpoint, whose weights may have grown since the scales were taken.
    fs::remove(log_of(sandbox_));
    must_succeed(sandbox_.train(settings(10), {"--resume"}));
    must_succeed(sandbox_.windlass(
        {"replay", sandbox_.out() + "/checkpoint-8/model", log_of(sandbox_), "--to", sandbox_ / "replayed"}));
    EXPECT_TRUE(weights_in(sandbox_ / "replayed") == weights_in(sandbox_.out() + "/final"));
}

TEST_F(WeightStorage, IsPartOfWhatARunIs) {
    must_succeed(sandbox_.train(settings(4, {{"sparse_share", "0.5"}})));
    const auto refusal = [&](const Settings& changes, int code) {
        Settings changed = settings(6, {{"sparse_share", "0.5"}});
        for (const auto& [key, value] : changes) changed[key] = value;
        const Finished finished = run(sandbox_.train(changed, {"--resume"}));
        EXPECT_EQ(finished.code, code) << describe(finished);
        return finished.err;
    };
    EXPECT_THAT(refusal({{"weight_storage", "as_file"}}, 2), HasSubstr("weight_storage was f8, is as_file"));
    EXPECT_THAT(refusal({{"method", "adamw"}, {"sparse_share", "1"}}, 2), HasSubstr("without a backward pass"));
    EXPECT_THAT(refusal({{"exact_inplace", "true"}}, 2), HasSubstr("weight_storage: as_file"));
    // The exponent of one weight of a matrix: its scale is another.
    edit_safetensors(sandbox_ / "llama_tiny/model.safetensors", [](Json& header, std::string& data) {
        for (const auto& [name, tensor] : header.items()) {
            if (name.find("mlp.up") != std::string::npos) data[tensor["data_offsets"][0].get<size_t>() + 1] = 0x42;
        }
    });
    EXPECT_THAT(refusal({}, 5), HasSubstr("is not the model that this run began with"));
}

TEST_F(WeightStorage, TakesHalfTheBytes) {
    const auto bytes = [&](const char* storage) {
        std::vector<std::string> words = {"plan", "--json"};
        Settings all = settings(4, {{"weight_storage", storage}});
        all["dtype"] = "bf16";
        for (const std::string& word : words_of(all)) words.push_back(word);
        const Json plan = json_of(sandbox_.windlass(words));
        for (const Json& row : plan.at("placement"))
            if (row.at("owner") == "weights") return row.at("memory_bytes").get<int64_t>();
        ADD_FAILURE() << plan.dump();
        return int64_t{0};
    };
    const int64_t kept = bytes("f8"), whole = bytes("as_file");
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, whole * 6 / 10);
}

}  // namespace
}  // namespace windlass::cli
