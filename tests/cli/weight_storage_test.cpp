// Runs that keep matrices in 8 or in 4 bits, through the real program: undone, branched, exported, loaded again; and
// whom they refuse.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "tensor/dtype.h"
#include "tests/cli/forward_only_runs.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Runs {
  protected:
    explicit Runs(const char* storage) : setup_{"llama_tiny", "zeroth_order", false, "", storage} {}
    Settings settings(int64_t steps, const Settings& changes = {}) {
        Settings all = settings_of(sandbox_, setup_, steps);
        all["lr_scheduler_type"] = "constant_with_warmup";
        for (const auto& [key, value] : changes) all[key] = value;
        return all;
    }
    // The bytes of weights that a run of these settings plans with.
    int64_t weight_bytes(const Settings& changes) {
        std::vector<std::string> words = {"plan", "--alone", "--json"};
        Settings all = settings(4, changes);
        all["dtype"] = "bf16";
        for (const std::string& word : words_of(all)) words.push_back(word);
        const Json plan = json_of(sandbox_.windlass(words));
        for (const Json& row : plan.at("placement"))
            if (row.at("owner") == "weights") return row.at("memory_bytes").get<int64_t>();
        ADD_FAILURE() << plan.dump();
        return 0;
    }
    const ForwardOnlySetup setup_;
    Sandbox sandbox_;
};

class WeightStorage : public Runs, public testing::TestWithParam<const char*> {
  protected:
    WeightStorage() : Runs(GetParam()) {}
};
class In8Bits : public Runs, public testing::Test {
  protected:
    In8Bits() : Runs("f8") {}
};
class In4Bits : public Runs, public testing::Test {
  protected:
    In4Bits() : Runs("nf4") {}
};

// bf16 has every number that was kept; matrices of at most 254 different ones.
TEST_F(In8Bits, WhatIsSavedIsWhatWasKept) {
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
TEST_P(WeightStorage, AKilledRunOnDiskHasTheBitsOfOneInMemory) {
    constexpr int64_t kSteps = 12;
    const ForwardOnlyOutcome expected = uninterrupted(setup_, kSteps);
    const Settings on_disk = {{"policy", "three_tier"},
                              {"ssd_dir", sandbox_ / "ssd"},
                              {"writeback_steps", "3"},
                              {"lr_scheduler_type", "linear"}};
    kill_after(sandbox_, settings(kSteps, on_disk), {}, 5);
    must_succeed(sandbox_.train(settings(kSteps, on_disk), {"--resume"}));
    expect_same(outcome_of(sandbox_), expected);
    EXPECT_TRUE(replayed(sandbox_, setup_, kSteps) == expected.weights);
}

TEST_P(WeightStorage, IsUndoneAndBranchedAndGoesOn) {
    must_succeed(sandbox_.train(settings(8, {{"save_steps", "4"}})));
    const ForwardOnlyOutcome straight = outcome_of(sandbox_);
    const auto branch = [&](const char* name, const char* from) {
        must_succeed(
            sandbox_.train(settings(8, {{"output_dir", sandbox_ / name}, {"branch_from", sandbox_.out() + from}})));
        return weights_in(sandbox_ / name + "/final");
    };
    EXPECT_TRUE(branch("early", "@2") == straight.weights);
    EXPECT_TRUE(branch("late", "@6") == straight.weights);
    must_succeed(sandbox_.train(settings(8, {{"save_steps", "4"}}), {"--resume=6"}));
    expect_same(outcome_of(sandbox_), straight);
    // A log that begins with a checkpoint: in 8 bits its weights may have grown since the scales were taken, and in 4
    // bits they are rounded as they were.
    fs::remove(log_of(sandbox_));
    must_succeed(sandbox_.train(settings(10), {"--resume"}));
    must_succeed(sandbox_.windlass(
        {"replay", sandbox_.out() + "/checkpoint-8/model", log_of(sandbox_), "--to", sandbox_ / "replayed"}));
    EXPECT_TRUE(weights_in(sandbox_ / "replayed") == weights_in(sandbox_.out() + "/final"));
}

INSTANTIATE_TEST_SUITE_P(Types, WeightStorage, testing::Values("f8", "nf4"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(In8Bits, IsPartOfWhatARunIs) {
    must_succeed(sandbox_.train(settings(4, {{"sparse_share", "0.5"}})));
    const auto refusal = [&](const Settings& changes, int code) {
        Settings changed = settings(6, {{"sparse_share", "0.5"}});
        for (const auto& [key, value] : changes) changed[key] = value;
        const Finished finished = run(sandbox_.train(changed, {"--resume"}));
        EXPECT_EQ(finished.code, code) << describe(finished);
        return finished.err;
    };
    EXPECT_THAT(refusal({{"weight_storage", "as_file"}}, 2), HasSubstr("weight_storage was f8, is as_file"));
    EXPECT_THAT(refusal({{"method", "adamw"}, {"sparse_share", "1"}}, 2), HasSubstr("trains every matrix"));
    // The exponent of one weight of a matrix: its scale is another.
    edit_safetensors(sandbox_ / "llama_tiny/model.safetensors", [](Json& header, std::string& data) {
        for (const auto& [name, tensor] : header.items()) {
            if (name.find("mlp.up") != std::string::npos) data[tensor["data_offsets"][0].get<size_t>() + 1] = 0x42;
        }
    });
    EXPECT_THAT(refusal({}, 5), HasSubstr("is not the model that this run began with"));
}

TEST_F(In8Bits, TakesHalfTheBytes) {
    const int64_t kept = weight_bytes({}), whole = weight_bytes({{"weight_storage", "as_file"}});
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, whole * 6 / 10);
}

// Matrices of layers are frozen: what is saved of them is the base's, whatever was computed with in their place. All
// else is trained, in the type of the files.
TEST_F(In4Bits, WhatIsSavedIsTheBaseAndWhatWasTrained) {
    must_succeed(sandbox_.train(settings(5, {{"save_steps", "3"}})));
    const Weights base = weights_in(sandbox_ / "llama_tiny"), last = weights_in(sandbox_.out() + "/final");
    const Weights first = replayed(sandbox_, setup_, 0);
    for (const auto& [name, bytes] : last) {
        const bool is_matrix = name.find("_proj.weight") != std::string::npos;
        EXPECT_EQ(bytes == base.at(name), is_matrix) << name;
        EXPECT_TRUE(first.at(name) == base.at(name)) << name;
    }
    must_succeed(sandbox_.windlass({"export", sandbox_.out() + "/checkpoint-3", "--to", sandbox_ / "exported"}));
    EXPECT_TRUE(weights_in(sandbox_ / "exported") == weights_in(sandbox_.out() + "/checkpoint-3/model"));
    must_succeed(sandbox_.windlass(
        {"generate", "--model", sandbox_.out() + "/final", "--prompt", "ab", "--max-new-tokens", "3"}));
}

TEST_F(In4Bits, IsPartOfWhatARunIs) {
    must_succeed(sandbox_.train(settings(4)));
    const auto refusal = [&](const Settings& changes, int code) {
        Settings changed = settings(6);
        for (const auto& [key, value] : changes) changed[key] = value;
        const Finished finished = run(sandbox_.train(changed, {"--resume"}));
        EXPECT_EQ(finished.code, code) << describe(finished);
        return finished.err;
    };
    EXPECT_THAT(refusal({{"weight_storage", "f8"}}, 2), HasSubstr("weight_storage was nf4, is f8"));
    EXPECT_THAT(refusal({{"method", "adamw"}}, 2), HasSubstr("method was zeroth_order, is adamw"));
    EXPECT_THAT(refusal({{"freeze", "*.up_proj.weight"}}, 2),
                testing::AllOf(HasSubstr("weight_storage: nf4 keeps"), HasSubstr("down_proj.weight is trained")));
}

// Matrices of 42 x 42 and of 42 x 99901: neither whole blocks, and the latter more than one chunk, the second of which
// is not whole blocks either.
TEST_F(In4Bits, MatricesMayEndInsideOfBlocksAndChunks) {
    const std::string model = sandbox_ / "odd";
    must_succeed({.words = {binary_dir() + "/make_model", "--shape", "llama-tiny", "--hidden", "42", "--heads", "3",
                            "--kv-heads", "3", "--head-dim", "14", "--ffn", "99901", "--layers", "1", "--seed", "1",
                            "--out", model}});
    const auto trained = [&](const std::string& policy, const std::string& device) {
        Settings all = settings(3, {{"model", model}, {"policy", policy}, {"device", device}});
        all["gradient_accumulation_steps"] = "1";
        all["output_dir"] = sandbox_ / (policy + "-run");
        if (policy == "three_tier") all["ssd_dir"] = sandbox_ / "ssd";
        must_succeed(sandbox_.train(all));
        return weights_in(all["output_dir"] + "/final");
    };
    const Weights expected = trained("in_memory", "cpu");
    EXPECT_TRUE(trained("three_tier", "cpu") == expected);
    EXPECT_TRUE(trained("host_stream", "cpu:emulate") == expected);
    must_succeed(sandbox_.windlass(
        {"replay", model, sandbox_ / "three_tier-run/trajectory.wlt", "--to", sandbox_ / "replayed"}));
    EXPECT_TRUE(weights_in(sandbox_ / "replayed") == expected);
    // What is computed with: a merged model of an adapter that has learnt nothing. Sixteen different numbers for
    // each 64.
    Settings adapter = settings(
        4, {{"model", model}, {"adapter", "lora"}, {"lora_r", "1"}, {"learning_rate", "0"}, {"save_steps", "4"}});
    adapter["method"] = "adamw";
    adapter.erase("freeze");
    adapter["output_dir"] = sandbox_ / "adapter-run";
    must_succeed(sandbox_.train(adapter));
    must_succeed(
        sandbox_.windlass({"export", adapter["output_dir"], "--merged", "computed", "--to", sandbox_ / "computed"}));
    const Weights computed = weights_in(sandbox_ / "computed");
    // Half the widest distance of levels, and what two roundings to bf16 add to it.
    constexpr float kMost = 0.1521f + 0x1p-7f;
    for (const auto& [name, bytes] : weights_in(model)) {
        if (name.find("_proj.weight") == std::string::npos) continue;
        const auto number = [](const std::string& from, size_t at) {
            bf16 x;
            std::memcpy(&x.bits, from.data() + at, sizeof x.bits);
            return to_float(x);
        };
        for (size_t block = 0; block < bytes.size(); block += 128) {
            float largest = 0, error = 0;
            std::set<std::string> numbers;
            for (size_t at = block; at < std::min(block + 128, bytes.size()); at += 2) {
                largest = std::max(largest, std::fabs(number(bytes, at)));
                error = std::max(error, std::fabs(number(bytes, at) - number(computed.at(name), at)));
                numbers.insert(computed.at(name).substr(at, 2));
            }
            ASSERT_LE(numbers.size(), 16u) << name << " from " << block / 2;
            ASSERT_LE(error, kMost * largest) << name << " from " << block / 2;
            ASSERT_TRUE(error > 0 || largest == 0) << name << " from " << block / 2;
        }
    }
}

TEST_F(In4Bits, TakesFewerBytes) {
    const int64_t kept = weight_bytes({}), whole = weight_bytes({{"weight_storage", "as_file"}});
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, whole);
}

}  // namespace
}  // namespace windlass::cli
