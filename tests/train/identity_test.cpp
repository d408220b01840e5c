// A run goes on from its own state and from no other's; what lies in its folder or on its drive may be anybody's.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "format/store.h"
#include "persist/export.h"
#include "persist/run_identity.h"
#include "session/machine_cache.h"
#include "session/session.h"
#include "state/checkpoint.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class IdentityTest : public TrainTest {
  protected:
    // What it threw, or nothing.
    std::string problem(const std::string& name, Settings changes, ExitCode code = ExitCode::storage) {
        try {
            run(name, changes);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            return error.what();
        }
        return "";
    }
    // The working store of a run of this name; a run that is done with save_steps null keeps it.
    std::string store_of(const std::string& name) const { return working_store_path(config(name, disk_)); }
    std::string id_of(const std::string& name) const { return run_id_of(real_files(), at(name)); }
    Settings with(Settings more) const {
        more.insert(disk_.begin(), disk_.end());
        return more;
    }
    std::string log_of(const std::string& name) const { return bytes(name + "/log.txt"); }
    const Settings disk_ = {{"policy", "three_tier"}, {"ssd_dir", at("ssd")}};
    const Settings again_ = {{"resume", "auto"}};
};

TEST_F(IdentityTest, StandsInTheFolderTheStoreAndTheCheckpoints) {
    run("run", with({{"max_steps", "4"}, {"save_steps", "2"}, {"save_total_limit", "2"}}));
    const std::string id = id_of("run");
    ASSERT_EQ(id.size(), 32u);
    const Identity kept = verify_checkpoint(files_, at("run/checkpoint-2")).identity;
    EXPECT_EQ(kept.run_id, id);
    EXPECT_THAT(bytes("run/run.yaml"), HasSubstr(fmt::format("\n# identity {}\n", identity_text(kept))));
    run("run", with({{"max_steps", "6"}, {"resume", "auto"}}));
    EXPECT_EQ(id_of("run"), id);
    const Store store = Store::open(files_, store_of("run"), OpenMode::read);
    EXPECT_EQ(parse_run_state(store.committed_run_state(), "store").identity.run_id, id);
    run("run", with({{"max_steps", "2"}, {"overwrite", "true"}}));
    EXPECT_NE(id_of("run"), id);
}

TEST_F(IdentityTest, ARunFromAnothersSettingsTellsWhatIsNotTheSame) {
    run("first", {{"max_steps", "2"}});
    set_log_level(LogLevel::info);
    const std::string yaml = at("first/run.yaml");
    const auto begin = [&](const std::string& name, std::vector<std::string> words) {
        words.insert(words.begin(), {yaml, "output_dir=" + at(name)});
        train(files_, make_config(read_config_sources(files_, words), ConfigUse::train).config);
        return log_of(name);
    };
    EXPECT_THAT(begin("same", {}), testing::Not(HasSubstr("not the run that")));
    EXPECT_EQ(bytes("same/final/model.safetensors"), bytes("first/final/model.safetensors"));
    EXPECT_THAT(begin("other", {"seed=7", "learning_rate=0.02"}),
                HasSubstr(fmt::format("not the run that {} was written by: seed was 42, is 7; learning_rate was 0.01, "
                                      "is 0.02",
                                      yaml)));
    write_rows("train.jsonl", 20, 99);
    EXPECT_THAT(begin("rows", {}), HasSubstr("was written by: training rows was "));
    std::string text = bytes("first/run.yaml");
    write("first/run.yaml", text.replace(text.find("# identity {"), 12, "# identity [["));
    EXPECT_THAT([&] { begin("damaged", {}); }, testing::ThrowsMessage<UserError>(HasSubstr(yaml)));
    set_log_level(LogLevel::warning);
}

TEST_F(IdentityTest, AnotherRunsStoreIsRefused) {
    run("a", with({{"max_steps", "4"}}));
    run("b", with({{"max_steps", "2"}}));
    fs::copy_file(store_of("b"), store_of("a"), fs::copy_options::overwrite_existing);
    const std::string refusal = problem("a", with({{"resume", "auto"}}));
    EXPECT_THAT(refusal, HasSubstr(store_of("a") + ": belongs to another run"));
    EXPECT_THAT(refusal, HasSubstr(id_of("b")));
    EXPECT_THAT(refusal, HasSubstr("Try: "));
}

TEST_F(IdentityTest, ARunThatBeginsDoesNotReplaceAnothersStore) {
    run("a", with({{"max_steps", "4"}}));
    const std::string store = bytes("ssd/" + fs::path(store_of("a")).filename().string());
    fs::remove_all(at("a"));
    EXPECT_THAT(problem("a", with({})), HasSubstr("belongs to another run"));
    EXPECT_TRUE(bytes("ssd/" + fs::path(store_of("a")).filename().string()) == store);
}

TEST_F(IdentityTest, AnotherRunsCheckpointIsRefused) {
    run("a", {{"max_steps", "2"}, {"save_steps", "2"}});
    run("b", {{"max_steps", "4"}, {"save_steps", "4"}});
    fs::copy(at("b/checkpoint-4"), at("a/checkpoint-4"), fs::copy_options::recursive);
    EXPECT_THAT(problem("a", again_), HasSubstr("checkpoint-4: belongs to another run"));
}

TEST_F(IdentityTest, AnotherRunsLogIsRefused) {
    const Settings zo = {{"method", "zeroth_order"}, {"max_steps", "3"}};
    run("a", zo);
    run("b", zo);
    for (const char* name : {"trajectory.wlt", "trajectory.json"})
        fs::copy_file(at(std::string("b/") + name), at(std::string("a/") + name), fs::copy_options::overwrite_existing);
    Settings on = zo;
    on["resume"] = "auto";
    on["max_steps"] = "4";  // a finished run is left alone, whatever is next to it
    EXPECT_THAT(problem("a", on), HasSubstr("trajectory.wlt: belongs to another run"));
}

TEST_F(IdentityTest, AFolderWithoutOneIsAdoptedOnceWithAWarning) {
    set_log_level(LogLevel::warning);
    run("run", {{"max_steps", "2"}, {"save_steps", "2"}});
    const std::string id = id_of("run");
    const std::string yaml = bytes("run/run.yaml");
    write("run/run.yaml", yaml.substr(yaml.find('\n') + 1));
    ASSERT_EQ(id_of("run"), "");
    run("run", {{"max_steps", "4"}, {"save_steps", "2"}, {"resume", "auto"}});
    EXPECT_EQ(id_of("run"), id);
    const std::string log = log_of("run");
    EXPECT_THAT(log, HasSubstr("names no run"));
    run("run", {{"max_steps", "6"}, {"save_steps", "2"}, {"resume", "auto"}});
    EXPECT_THAT(log_of("run").substr(log.size()), testing::Not(HasSubstr("names no run")));
}

// Nothing of the run is tried, and its folder is left as it is.
TEST_F(IdentityTest, AFolderOfAnotherFormatIsNeitherResumedNorExported) {
    run("run", {{"max_steps", "2"}, {"save_steps", "2"}});
    const std::string yaml = bytes("run/run.yaml"), head(kRunConfigHead);
    const size_t begin = yaml.find(head + "1.");
    ASSERT_NE(begin, yaml.npos);
    for (const auto& [line, words] :
         {std::pair("# Every setting of this run.", "run.yaml: was written by an older build of Windlass, which"),
          {"# Every setting of this run, in format 2.",
           "run.yaml: was written by a version of Windlass whose runs "
           "are of format 2; this program reads format 1"}}) {
        std::string other = yaml;
        write("run/run.yaml", other.replace(begin, head.size() + 2, line));
        EXPECT_THAT(problem("run", {{"max_steps", "4"}, {"resume", "auto"}}), HasSubstr(words));
        EXPECT_THAT([&] { export_model(files_, {.source = at("run"), .target = at("model")}); },
                    testing::ThrowsMessage<UserError>(HasSubstr(words)));
        EXPECT_EQ(bytes("run/run.yaml"), other);
    }
    EXPECT_EQ(problem("run", {{"max_steps", "4"}, {"overwrite", "true"}}), "");
}

TEST_F(IdentityTest, AStoreThatAnotherProcessHoldsIsRefused) {
    const std::string path = store_of("run");
    const StoreLock held(files_, path);
    EXPECT_THAT(problem("run", with({})), HasSubstr(path + ": another process trains"));
}

TEST_F(IdentityTest, TheLockGoesWithTheRun) {
    run("run", with({{"max_steps", "2"}}));
    EXPECT_FALSE(fs::exists(store_of("run") + ".lock"));
}

TEST_F(IdentityTest, AStoreThatIsOlderThanTheRunIsRefused) {
    run("run", with({{"max_steps", "2"}}));
    fs::copy_file(store_of("run"), at("old.wls"));
    run("run", with({{"max_steps", "6"}, {"resume", "auto"}}));
    fs::copy_file(at("old.wls"), store_of("run"), fs::copy_options::overwrite_existing);
    const std::string refusal = problem("run", with({{"resume", "auto"}}));
    EXPECT_THAT(refusal, HasSubstr("is of step 2, but"));
    EXPECT_THAT(refusal, HasSubstr("steps up to 6"));
    fs::rename(at("run/metrics.jsonl"), at("moved.jsonl"));
    EXPECT_EQ(problem("run", with({{"resume", "auto"}})), "");
}

// Three tiers to step 14, resumed in memory from checkpoint 10 without their store, which is of another history then.
TEST_F(IdentityTest, AStoreOfAHistoryThatWasLeftIsRefused) {
    run("run", with({{"max_steps", "10"}, {"save_steps", "10"}}));
    run("run", with({{"max_steps", "14"}, {"resume", "auto"}}));
    ASSERT_TRUE(fs::exists(store_of("run")));
    fs::remove_all(at("run/final"));
    run("run", {{"resume", "auto"}, {"max_steps", "13"}, {"learning_rate", "0.02"}});
    EXPECT_EQ(history("run").size(), 13u);
    const std::string store = bytes("ssd/" + fs::path(store_of("run")).filename().string());
    fs::remove_all(at("run/final"));
    const std::string refusal =
        problem("run", with({{"resume", "auto"}, {"learning_rate", "0.02"}, {"max_steps", "14"}}));
    EXPECT_THAT(refusal, HasSubstr(store_of("run") + ": is of step 14 of a history that this run has left: the run was "
                                                     "resumed after step 10 without it. Try: rm "));
    EXPECT_TRUE(bytes("ssd/" + fs::path(store_of("run")).filename().string()) == store) << "nothing was touched";
    fs::remove(store_of("run"));
    run("run", with({{"resume", "auto"}, {"learning_rate", "0.02"}, {"max_steps", "14"}}));
    run("whole", {{"max_steps", "10"}, {"save_steps", "10"}});
    run("whole", {{"max_steps", "14"}, {"resume", "auto"}, {"learning_rate", "0.02"}});
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == bytes(std::string("whole") + kWeights));
}

// It was set aside when the run went back.
TEST_F(IdentityTest, ACheckpointOfAHistoryThatWasLeftIsRefused) {
    run("run", {{"max_steps", "4"}, {"save_steps", "2"}});
    run("run", {{"max_steps", "3"}, {"resume", "2"}, {"learning_rate", "0.02"}});
    ASSERT_TRUE(fs::exists(at("run/undone-checkpoint-4")));
    fs::rename(at("run/undone-checkpoint-4"), at("run/checkpoint-4"));
    EXPECT_THAT(problem("run", {{"max_steps", "5"}, {"resume", "auto"}}),
                HasSubstr("checkpoint-4: is of step 4 of a history that this run has left: the run was resumed after "
                          "step 2 without it. Try: to move it out of the run's folder"));
}

// Steps in memory between checkpoints are lost with the process: their lines are ahead of what is left, rightly.
TEST_F(IdentityTest, StepsInMemoryMayBeAheadOfACheckpoint) {
    run("run", {{"max_steps", "8"}, {"save_steps", "4"}});
    fs::remove_all(at("run/checkpoint-8"));
    EXPECT_EQ(problem("run", again_), "");
}

// ---- what may lie in a folder ----

class Planted : public IdentityTest, public testing::WithParamInterface<const char*> {};

TEST_P(Planted, LinksAreNotWrittenThrough) {
    write("victim", "years of work");
    run("run", {{"max_steps", "1"}, {"save_steps", "1"}});
    fs::remove(at(std::string("run/") + GetParam()));
    fs::create_symlink(at("victim"), at(std::string("run/") + GetParam()));
    EXPECT_THAT(problem("run", {{"max_steps", "2"}, {"resume", "auto"}}), HasSubstr("remove the link"));
    EXPECT_EQ(bytes("victim"), "years of work");
}

INSTANTIATE_TEST_SUITE_P(Names, Planted, testing::Values("run.yaml.tmp", "log.txt", "metrics.jsonl"));

TEST_F(IdentityTest, ADamagedMachineCacheIsMeasuredAnew) {
    const std::string path = machine_cache_path("", 1);
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "windlass machine 1\nnonsense\n";
    EXPECT_GT(known_machine(files_, "", 1).memory_bytes, 0);
    EXPECT_THAT(bytes("cache/windlass/" + fs::path(path).filename().string()), HasSubstr("memory"));
}

// What fails of it ends there, be it no error of ours: above it stands a copy of the whole program.
TEST_F(IdentityTest, TheProcessThatMeasuresNeverGoesOnAsASecondRun) {
    class BrokenFiles : public PassingFiles {
        std::unique_ptr<File> open(const std::string&, const OpenOptions&) override {
            throw std::runtime_error("no error of ours");
        }
    } broken;
    const pid_t here = ::getpid();
    std::string said;
    try {
        known_machine(broken, at("ssd"), 1);
    } catch (const std::exception& error) {
        said = error.what();
    }
    if (::getpid() != here) {
        write("escaped", "");
        ::_exit(0);
    }
    EXPECT_FALSE(fs::exists(at("escaped")));
    EXPECT_THAT(said, HasSubstr("this machine could not be measured"));
}

// The older checkpoint of a step stands until the new one has its name.
TEST_F(IdentityTest, ACheckpointThatCannotBeReplacedStays) {
    const Settings saves = {{"max_steps", "4"}, {"save_steps", "2"}};
    run("run", saves);
    fs::rename(at("run/checkpoint-4"), at("run/checkpoint-4.replaced"));
    const auto places = list_checkpoints(files_, at("run"));
    ASSERT_EQ(places.size(), 2u);
    EXPECT_EQ(verify_checkpoint(files_, places.back().path).progress.step, 4);
    Settings more = saves;
    more["max_steps"] = "6";
    more["resume"] = "auto";
    run("run", more);
    EXPECT_TRUE(fs::exists(at("run/checkpoint-6")));
}

}  // namespace
}  // namespace windlass
