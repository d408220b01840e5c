// Exports while training: what they hold, and that they change nothing of the run.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "format/store.h"
#include "persist/export.h"
#include "persist/export_request.h"
#include "tests/fault_files.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

struct Place {
    const char* policy;
    const char* update_time;
};
void PrintTo(const Place& place, std::ostream* out) {
    *out << place.policy << ", " << place.update_time;
}

class ExportWhileTraining : public TrainTest, public testing::WithParamInterface<Place> {
  protected:
    Settings settings(Settings more = {}) const {
        more["policy"] = GetParam().policy;
        more["update_time"] = GetParam().update_time;
        more["max_grad_norm"] = "3";
        return more;
    }
    std::string model_of(const std::string& folder) const { return bytes(folder + "/model.safetensors"); }
};

// Every step: the export of one must be done before the step after next.
TEST_P(ExportWhileTraining, HoldsWhatACheckpointOfTheStepHolds) {
    constexpr int kSteps = 4;
    const std::string steps = std::to_string(kSteps);
    run("saving", settings({{"max_steps", steps}, {"save_steps", "1"}}));
    run("exporting", settings({{"max_steps", steps}, {"export_steps", "1"}}));
    for (int step = 1; step <= kSteps; ++step) {
        const std::string checkpoint = fmt::format("{}/checkpoint-{}", at("saving"), step);
        const std::string exported = fmt::format("exporting/export-{}", step), again = fmt::format("again-{}", step);
        export_model(files_, {.source = checkpoint, .target = at(again)});
        ASSERT_GT(model_of(exported).size(), 1000u);
        EXPECT_TRUE(model_of(exported) == model_of(again)) << "step " << step;
        for (const char* name : {"config.json", "tokenizer.json"})
            EXPECT_EQ(bytes(exported + "/" + name), bytes(again + "/" + name));
    }
    EXPECT_EQ(history("exporting"), history("saving"));
    for (const auto& entry : fs::directory_iterator(at("exporting")))
        EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::HasSubstr("tmp")));
}

// Masters, moments and position: the state of a run that exports is that of one that does not.
TEST_P(ExportWhileTraining, ChangesNoByteOfTheState) {
    run("without", settings({{"save_steps", "12"}}));
    run("with", settings({{"save_steps", "12"}, {"export_steps", "3"}}));
    EXPECT_EQ(history("with"), history("without"));
    const auto state = [&](const std::string& run) {
        const Store store = Store::open(files_, at(run + "/checkpoint-12/state.wls"), OpenMode::read);
        const std::string file = bytes(run + "/checkpoint-12/state.wls");
        std::string all;
        for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
            for (const Extent extent : {store.weight_extent(chunk, 0), store.state_extent(chunk, 0)})
                all.append(file, static_cast<size_t>(extent.offset), static_cast<size_t>(extent.bytes));
        }
        return all;
    };
    ASSERT_GT(state("with").size(), 1000u);
    EXPECT_TRUE(state("with") == state("without"));
}

// A folder that cannot be written is a warning; the run goes on, and other exports too.
TEST_P(ExportWhileTraining, FailingDoesNotEndTheRun) {
    set_log_level(LogLevel::warning);
    FaultFiles files(at("image"));
    files.fail(
        {.call = FaultCall::write, .error_number = ENOSPC, .times = FaultRule::kForever, .path_part = "export-4.tmp"});
    const TrainResult result = train(files, config("run", settings({{"export_steps", "4"}})));
    EXPECT_EQ(result.steps, 12);
    EXPECT_FALSE(fs::exists(at("run/export-4")));
    EXPECT_TRUE(fs::exists(at("run/export-8/model.safetensors")));
    EXPECT_THAT(bytes("run/log.txt"), testing::HasSubstr("step 4 is not exported"));
}

// The verb, while the run goes on, which is stopped when the answer is there: what it threw, or nothing.
class AskedExport : public ExportWhileTraining {
  protected:
    std::string ask(const std::string& target) {
        std::thread asker;
        std::atomic<bool> is_answered{false};
        std::string refusal;
        const auto watch = [&](int pid, int64_t lines) {
            if (is_answered.load()) kill(pid, SIGTERM);
            if (lines < 3 || asker.joinable()) return;
            asker = std::thread([&] {
                try {
                    result_ = export_model(files_, {.source = at("run"), .target = at(target)});
                } catch (const Error& error) {
                    refusal = error.what();
                }
                is_answered.store(true);
            });
        };
        const int code = run_apart("run", settings({{"max_steps", "100000"}}), watch);
        EXPECT_EQ(code, static_cast<int>(ExitCode::terminated)) << "the run did not go on";
        if (asker.joinable()) asker.join();
        return refusal;
    }
    ExportResult result_;
};

TEST_P(AskedExport, HoldsTheStepThatItIsSaidToHold) {
    EXPECT_EQ(ask("asked"), "");
    EXPECT_GE(result_.step, 3);
    EXPECT_GT(result_.bytes, 1000);
    run("same", settings({{"max_steps", std::to_string(result_.step.value())}}));
    EXPECT_TRUE(model_of("asked") == model_of("same/final"));
    for (const auto& entry : fs::directory_iterator(at("run")))
        EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::StartsWith("export")));
}

TEST_P(AskedExport, IsRefusedToTheAsker) {
    fs::create_directories(at("taken"));
    write("taken/somebody.txt", "theirs");
    EXPECT_THAT(ask("taken"), testing::HasSubstr("taken: exists and is not empty"));
    EXPECT_EQ(bytes("taken/somebody.txt"), "theirs");
}

constexpr Place kPlaces[] = {{"in_memory", "after_backward"}, {"in_memory", "in_backward"},
                             {"in_memory", "next_forward"},   {"three_tier", "after_backward"},
                             {"three_tier", "in_backward"},   {"three_tier", "next_forward"}};
INSTANTIATE_TEST_SUITE_P(Plans, ExportWhileTraining, testing::ValuesIn(kPlaces));
INSTANTIATE_TEST_SUITE_P(Plans, AskedExport, testing::ValuesIn(kPlaces));

// Does not remove this file when it is told to for the first and the second time.
class StickyFiles final : public PassingFiles {
  public:
    explicit StickyFiles(std::string path) : path_(std::move(path)) {}
    void remove_file(const std::string& path) override {
        if (path == path_ && ++asked_ <= 2) throw MachineError("unlink", path, EIO);
        PassingFiles::remove_file(path);
    }

  private:
    std::string path_;
    int asked_ = 0;
};

using ExportRequests = TrainTest;

TEST_F(ExportRequests, AnEmptyFileAsksForAFolderInTheRun) {
    fs::create_directories(at("run"));
    write("run/export", "");
    const auto request = read_export_request(files_, at("run"));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->options.target, "");
    EXPECT_TRUE(fs::exists(at("run/export"))) << "it is there until its export is whole";
    EXPECT_TRUE(remove_export_request(files_, at("run")));
    EXPECT_FALSE(fs::exists(at("run/export")));
    EXPECT_FALSE(read_export_request(files_, at("run")).has_value());
}

// One that cannot be removed is exported once, not at each step; the run tries to remove it until it can.
TEST_F(ExportRequests, AreExportedOnceIfTheyCannotBeRemoved) {
    run("run", {{"max_steps", "2"}, {"save_steps", "2"}});
    write("run/export", "");
    StickyFiles files(at("run/export"));
    EXPECT_EQ(train(files, config("run", {{"max_steps", "6"}, {"resume", "auto"}})).steps, 6);
    EXPECT_TRUE(fs::exists(at("run/export-2/model.safetensors")));
    for (const char* later : {"run/export", "run/export-3", "run/export-4", "run/export-5", "run/export-6"})
        EXPECT_FALSE(fs::exists(at(later))) << later;
}

TEST_F(ExportRequests, WhatIsNoRequestIsPassedOver) {
    set_log_level(LogLevel::error);
    fs::create_directories(at("run"));
    for (const char* text : {"{", "{}", "[1]", R"({"to": 7})", R"({"to": "x", "dtype": "int4"})",
                             R"({"to": "x", "reply": "../../etc/passwd"})", R"({"to": "x", "reply": "run.yaml"})"}) {
        write("run/export", text);
        EXPECT_FALSE(read_export_request(files_, at("run")).has_value()) << text;
        EXPECT_FALSE(fs::exists(at("run/export"))) << text;
    }
    write("run/export", std::string(1 << 20, ' '));
    EXPECT_FALSE(read_export_request(files_, at("run")).has_value()) << "more than is read";
    EXPECT_FALSE(fs::exists(at("run/export")));
}

TEST_F(ExportRequests, FoldersOfTheirNamesAreNoneAndStay) {
    run("run", {{"max_steps", "2"}, {"save_steps", "2"}});
    for (const char* name : {"run/export", "run/save"}) {
        EXPECT_THROW(export_model(files_, {.source = at("run"), .target = at(name)}), UserError) << name;
        fs::create_directories(at(name));
        write(std::string(name) + "/theirs.txt", "theirs");
    }
    EXPECT_EQ(run("run", {{"max_steps", "4"}, {"resume", "auto"}}).steps, 4);
    EXPECT_EQ(bytes("run/export/theirs.txt"), "theirs");
    EXPECT_EQ(bytes("run/save/theirs.txt"), "theirs");
}

}  // namespace
}  // namespace windlass
