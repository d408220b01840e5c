// What a run leaves behind the state that it goes on from, named or newest, is no longer of it: no checkpoint, no
// store.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "/model/model.safetensors";

class Undo : public TrainTest, public testing::WithParamInterface<const char*> {
  protected:
    Settings settings(Settings more) const {
        more["policy"] = GetParam();
        more["max_grad_norm"] = "1";
        return more;
    }
};

// The learning rate differs, so that what is left of the first branch shows.
TEST_P(Undo, TheCheckpointsBehindANamedStep) {
    run("run", settings({{"max_steps", "5"}, {"save_steps", "2"}}));
    ASSERT_TRUE(fs::exists(at("run/checkpoint-5")));
    const Settings again = {{"max_steps", "5"}, {"save_steps", "2"}, {"resume", "2"}, {"learning_rate", "0.02"}};
    set_log_level(LogLevel::info);
    run("run", settings(again));
    set_log_level(LogLevel::error);
    EXPECT_TRUE(bytes(std::string("run/checkpoint-5") + kModel) == bytes(std::string("run") + kWeights));
    EXPECT_FALSE(bytes(std::string("run/undone-checkpoint-5") + kModel) == bytes(std::string("run") + kWeights));
    EXPECT_TRUE(fs::exists(at("run/undone-checkpoint-4")));
    EXPECT_TRUE(fs::is_empty(at("ssd")));
    EXPECT_THAT(bytes("run/log.txt"),
                testing::ContainsRegex("undone-checkpoint-5, which keeps [0-9.]+ [KM]iB until you remove it"));
}

// The store of a run that was stopped at step 5 is of the branch that was undone.
TEST_P(Undo, TheStoreBehindANamedStep) {
    run("run", settings({{"max_steps", "2"}, {"save_steps", "2"}}));
    run("run", settings({{"max_steps", "5"}, {"resume", "auto"}}));
    run("run", settings({{"max_steps", "3"}, {"resume", "2"}, {"learning_rate", "0.02"}}));
    EXPECT_EQ(history("run").size(), 3u);
    run("run", settings({{"max_steps", "4"}, {"resume", "auto"}, {"learning_rate", "0.02"}}));
    run("whole", settings({{"max_steps", "2"}, {"save_steps", "2"}}));
    run("whole", settings({{"max_steps", "4"}, {"resume", "auto"}, {"learning_rate", "0.02"}}));
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == bytes(std::string("whole") + kWeights));
    EXPECT_EQ(history("run"), history("whole"));
}

TEST_P(Undo, NoLimitRemovesTheCheckpointThatWasJustWritten) {
    run("run", settings({{"max_steps", "6"}, {"save_steps", "2"}, {"save_total_limit", "2"}}));
    const Settings again = {{"max_steps", "5"}, {"save_steps", "5"}, {"save_total_limit", "1"}, {"resume", "4"}};
    run("run", settings(again));
    EXPECT_TRUE(fs::exists(at("run/checkpoint-5")));
    EXPECT_FALSE(fs::exists(at("run/checkpoint-4")));
}

TEST_P(Undo, ADamagedCheckpointIsSetAside) {
    run("run", settings({{"max_steps", "6"}, {"save_steps", "2"}}));
    write("run/checkpoint-6/model/model.safetensors", "damaged");
    fs::remove_all(at("run/final"));  // else the run has finished, and is left alone
    run("run", settings({{"max_steps", "5"}, {"save_steps", "5"}, {"save_total_limit", "1"}, {"resume", "auto"}}));
    EXPECT_TRUE(fs::exists(at("run/checkpoint-5")));
    EXPECT_TRUE(fs::exists(at("run/undone-checkpoint-6")));
}

INSTANTIATE_TEST_SUITE_P(Policies, Undo, testing::Values("in_memory", "three_tier"));

// A plan that keeps no store goes on from one that another plan kept.
TEST_F(TrainTest, AWorkingStoreIsGoneOnFromWithoutOne) {
    const Settings settings = {{"device", "cpu:emulate"}, {"policy", "three_tier"}};
    Settings first = settings, rest = settings, whole = settings;
    first["max_steps"] = "4";
    rest["policy"] = "host_stream";
    rest["ssd_dir"] = at("ssd");
    rest["resume"] = "auto";
    run("run", first);
    ASSERT_FALSE(fs::is_empty(at("ssd")));
    run("run", rest);
    run("whole", whole);
    EXPECT_EQ(history("run"), history("whole"));
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == bytes(std::string("whole") + kWeights));
}

// A plan that keeps no store leaves none of what was undone, which would be newer than the run's own checkpoints.
TEST_F(TrainTest, AStoreThatWasUndoneIsGoneWhateverThePlan) {
    const Settings disk = {{"device", "cpu:emulate"}, {"policy", "three_tier"}};
    Settings first = disk, on = disk, back = disk;
    first["max_steps"] = first["save_steps"] = "2";
    on["max_steps"] = "5";
    on["resume"] = "auto";
    back["policy"] = "host_stream";
    back["ssd_dir"] = at("ssd");
    back["max_steps"] = "3";
    back["resume"] = "2";
    run("run", first);
    run("run", on);
    ASSERT_FALSE(fs::is_empty(at("ssd")));
    run("run", back);
    EXPECT_TRUE(fs::is_empty(at("ssd")));
}

// A drive that is twice as large as the store that is on it.
class CrowdedFiles final : public PassingFiles {
  public:
    CrowdedFiles(std::string folder, int64_t capacity) : folder_(std::move(folder)), capacity_(capacity) {}
    int64_t free_bytes(const std::string& path) override {
        if (!path.starts_with(folder_)) return PassingFiles::free_bytes(path);
        int64_t free = capacity_;
        for (const auto& entry : fs::directory_iterator(folder_)) free -= static_cast<int64_t>(entry.file_size());
        return free;
    }

  private:
    std::string folder_;
    int64_t capacity_;
};

TEST_F(TrainTest, ADriveHasRoomForTheStoreThatItHolds) {
    run("run", {{"policy", "three_tier"}, {"max_steps", "4"}});
    int64_t store = 0;
    for (const auto& entry : fs::directory_iterator(at("ssd"))) store += static_cast<int64_t>(entry.file_size());
    ASSERT_GT(store, 0);
    CrowdedFiles files(at("ssd"), 2 * store);
    for (const char* how : {"resume", "overwrite"}) {
        const Settings settings = {{"policy", "three_tier"}, {how, *how == 'r' ? "auto" : "true"}};
        EXPECT_EQ(train(files, config("run", settings)).steps, 12) << how;
    }
}

using Overwrite = TrainTest;

TEST_F(Overwrite, NeverRemovesWhatTheRunIsMadeFrom) {
    run("run", {{"max_steps", "2"}, {"save_steps", "2"}});
    const std::string weights = bytes(std::string("run/checkpoint-2") + kModel);
    for (const char* base : {"run/checkpoint-2/model", "run/checkpoint-2", "run", "run/final"})
        EXPECT_THROW(run("run", {{"model", at(base)}, {"overwrite", "true"}}), UserError) << base;
    run("adapter", {{"max_steps", "2"}, {"save_steps", "2"}, {"adapter", "lora"}});
    for (const char* base : {"adapter/final", "adapter"})
        EXPECT_THROW(run("adapter", {{"adapter", at(base)}, {"overwrite", "true"}}), UserError) << base;
    fs::copy(at("train.jsonl"), at("run/samples.jsonl"));
    const Settings rows = {{"train_data", "[" + at("run/samples.jsonl") + "]"}, {"overwrite", "true"}};
    EXPECT_THROW(run("run", rows), UserError);
    EXPECT_TRUE(bytes(std::string("run/checkpoint-2") + kModel) == weights);
    EXPECT_TRUE(fs::exists(at("adapter/final/adapter_model.safetensors")));
    EXPECT_TRUE(fs::exists(at("run/samples.jsonl")));
}

// Files and folders of a user's whose names begin as ours do.
TEST_F(Overwrite, RemovesNothingByTheBeginningOfItsName) {
    run("run", {{"max_steps", "2"}, {"save_steps", "1"}, {"export_steps", "2"}});
    const std::vector<std::string> theirs = {"export-notes.txt",
                                             "refresh-my.md",
                                             "bad-batch-notes",
                                             "undone-checkpoint-of-mine",
                                             "checkpoint-thesis/chapter1.tex",
                                             "checkpoint-thesis.replaced/chapter1.tex",
                                             "checkpoint-notes.tmp/1.txt",
                                             "export-pictures/1.png",
                                             "checkpoint-7/notes.txt",
                                             "events.out.tfevents.1732800000.host",
                                             "final.tmpl",
                                             "export-2.zip",
                                             "refresh-2.json.orig"};
    for (const std::string& name : theirs) {
        fs::create_directories(fs::path(at("run/" + name)).parent_path());
        write("run/" + name, "a year's work");
    }
    const std::vector<std::string> ours = {
        "checkpoint-1",        "checkpoint-2",          "export-2",         "checkpoint-9",
        "undone-checkpoint-4", "undone-checkpoint-4.2", "checkpoint-3.tmp", "checkpoint-3.replaced.tmp"};
    fs::create_directories(at("run/checkpoint-9/model"));  // what a kill leaves of one that was being removed
    for (const char* unfinished : {"run/checkpoint-3.tmp/model", "run/checkpoint-3.replaced.tmp/model"})
        fs::create_directories(at(unfinished));
    for (const char* undone : {"run/undone-checkpoint-4", "run/undone-checkpoint-4.2"})
        fs::copy(at("run/checkpoint-1"), at(undone), fs::copy_options::recursive);
    for (const std::string& name : ours) ASSERT_TRUE(fs::exists(at("run/" + name))) << name;
    run("run", {{"max_steps", "1"}, {"save_steps", "5"}, {"overwrite", "true"}});
    for (const std::string& name : theirs) EXPECT_EQ(bytes("run/" + name), "a year's work") << name;
    for (const std::string& name : ours)
        EXPECT_EQ(fs::exists(at("run/" + name)), name == "checkpoint-1") << name;  // the last step saves one
}

// Fails from the removal on that comes behind `removals` others, or where a file is made whose path has this in it.
class StoppingFiles final : public PassingFiles {
  public:
    explicit StoppingFiles(int removals, std::string never_made = "") : left_(removals), name_(std::move(never_made)) {}
    void remove_tree(const std::string& path) override {
        if (left_-- <= 0) throw MachineError("unlink", path, EIO);
        PassingFiles::remove_tree(path);
    }
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        const bool makes = options.mode == OpenMode::create || options.mode == OpenMode::create_new;
        if (makes && !name_.empty() && path.find(name_) != std::string::npos) throw MachineError("open", path, EIO);
        return PassingFiles::open(path, options);
    }

  private:
    int left_;
    std::string name_;
};

TEST_F(Overwrite, ThatIsCutShortIsDoneAgainAndLeavesNothing) {
    const Settings lsp = {{"adapter", "lsp"},   {"lsp_d", "8"},       {"lsp_r", "2"},
                          {"lsp_refresh", "2"}, {"lsp_samples", "4"}, {"max_steps", "4"}};
    bool dies = true;
    int removals = 0;
    for (; dies; ++removals) {
        fs::remove_all(at("run"));
        run("run", lsp);
        ASSERT_TRUE(fs::exists(at("run/refresh-3.json")));
        StoppingFiles files(removals);
        const Settings again = {{"max_steps", "2"}, {"overwrite", "true"}};
        try {
            train(files, config("run", again));
            dies = false;
        } catch (const MachineError&) {
            ASSERT_NO_THROW(run("run", again)) << removals;
        }
        for (const auto& entry : fs::directory_iterator(at("run")))
            EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::StartsWith("refresh-")));
    }
    EXPECT_GT(removals, 5);
}

TEST_F(Overwrite, TakesABranchWhoseBeginningWasCutShort) {
    run("probes", {{"method", "zeroth_order"}, {"max_steps", "4"}});
    Settings branch = {{"method", "zeroth_order"}, {"max_steps", "3"}, {"branch_from", at("probes") + "@2"}};
    StoppingFiles files(100, "branch/metrics");
    EXPECT_THROW(train(files, config("branch", branch)), MachineError);
    branch["overwrite"] = "true";
    EXPECT_EQ(run("branch", branch).steps, 3);
}

}  // namespace
}  // namespace windlass
