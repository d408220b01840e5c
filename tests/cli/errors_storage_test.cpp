// Disks, permissions, folders and damaged state that must be refused, through the real program.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/provoked.h"
#include "tests/cli/small_disk.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

// As somebody whom permissions hold back: another user where the tests run as root.
Command as_stranger(Command command) {
    if (::getuid() == 0) command.user = kNobody;
    return command;
}

// A finished run of two steps with a checkpoint, and its settings for two more.
Settings finished_run(Sandbox& sandbox) {
    Settings settings = sandbox.training();
    must_succeed(sandbox.train(settings));
    fs::remove_all(sandbox.out() + "/final");
    settings["max_steps"] = "4";
    return settings;
}

std::function<Command(Sandbox&)> resume_with(std::map<std::string, std::string> changes) {
    return [changes](Sandbox& sandbox) {
        Settings settings = finished_run(sandbox);
        for (const auto& [key, value] : changes) settings[key] = value;
        return sandbox.train(settings, {"--resume"});
    };
}

// A run whose checkpoint has one wrong byte, resumed from it.
std::function<Command(Sandbox&)> resume_damaged(std::string file, std::string resume) {
    return [file, resume](Sandbox& sandbox) {
        const Settings settings = finished_run(sandbox);
        flip_byte(fmt::format("{}/checkpoint-2/{}", sandbox.out(), file), -100);
        return sandbox.train(settings, {resume});
    };
}

// Damages every block of the working store behind its layout and records.
Command resume_damaged_store(Sandbox& sandbox) {
    Settings settings = sandbox.training_on_disk();
    settings["save_steps"] = "null";  // or a checkpoint would replace the store
    must_succeed(sandbox.train(settings));
    fs::remove_all(sandbox.out() + "/final");
    settings["max_steps"] = "4";
    const std::string store = fs::directory_iterator(sandbox / "ssd")->path().string();
    std::string bytes = read_bytes(store);
    for (size_t at = bytes.size() / 16; at < bytes.size(); at += 1024) bytes[at] = static_cast<char>(~bytes[at]);
    write_bytes(store, bytes);
    return sandbox.train(settings, {"--resume"});
}

std::vector<Provoked> folders() {
    return {
        {"OutputNotEmpty",
         with_settings([](Settings& settings, Sandbox&) {
             fs::create_directories(settings["output_dir"]);
             write_bytes(settings["output_dir"] + "/thesis.tex", "years of work");
         }),
         kUsage,
         {"output_dir", "is not empty", "Try: another folder"}},
        {"OverwriteOfNoRun",
         with_settings([](Settings& settings, Sandbox&) {
             fs::create_directories(settings["output_dir"]);
             write_bytes(settings["output_dir"] + "/thesis.tex", "years of work");
             settings["overwrite"] = "true";
         }),
         kUsage,
         {"output_dir", "what it holds is not a run"}},
        {"OutputHoldsARun",
         [](Sandbox& sandbox) { return sandbox.train(finished_run(sandbox)); },
         kUsage,
         {"output_dir", "holds a run already", "Try: --resume, --overwrite"}},
        {"OutputIsAFile",
         with_settings([](Settings& settings, Sandbox&) { write_bytes(settings["output_dir"], ""); }),
         kStorage,
         {"out", "Not a directory"}},
        {"ExportTargetNotEmpty",
         [](Sandbox& sandbox) {
             finished_run(sandbox);
             write_bytes(sandbox / "thesis.txt", "years");
             return sandbox.windlass({"export", sandbox.out(), "--to", sandbox.path()});
         },
         kStorage,
         {"exists and is not empty", "Try: another folder"}},
        {"ExportOverADocument",
         [](Sandbox& sandbox) {
             finished_run(sandbox);
             fs::create_directories(sandbox / "papers");
             write_bytes(sandbox / "papers/thesis.txt", "years");
             return sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "papers", "--overwrite"});
         },
         kStorage,
         {"papers", "thesis.txt", "Try: "}},
        {"ExportOverTheBase",
         [](Sandbox& sandbox) {
             finished_run(sandbox);
             return sandbox.windlass({"export", sandbox.out(), "--to", sandbox.model() + "/.", "--overwrite"});
         },
         kUsage,
         {"llama", "never written", "Try: another folder"}},
    };
}

std::vector<Provoked> permissions() {
    return {
        {"OutputInReadOnlyFolder",
         [](Sandbox& sandbox) {
             Settings settings = sandbox.training();
             fs::create_directories(sandbox / "closed");
             fs::permissions(sandbox / "closed", fs::perms(0555));
             settings["output_dir"] = sandbox / "closed/run";
             return as_stranger(sandbox.train(settings));
         },
         kStorage,
         {"closed/run", "Permission denied", "Try: check the owner and the permissions"}},
        {"UnreadableWeights",
         [](Sandbox& sandbox) {
             const Settings settings = sandbox.training();
             fs::permissions(sandbox.path(), fs::perms(0777));
             fs::permissions(sandbox.model() + "/model.safetensors", fs::perms::none);
             return as_stranger(sandbox.train(settings));
         },
         kStorage,
         {"model.safetensors", "Permission denied", "Try: "}},
        {"FileSizeLimit",
         [](Sandbox& sandbox) {
             // The machine is measured before, with larger files.
             must_succeed(sandbox.windlass({"doctor", "--threads", "1", "--ssd", sandbox / "ssd"}));
             Command command = sandbox.train(sandbox.training_on_disk());
             command.file_bytes_max = 300'000;
             return command;
         },
         kStorage,
         {".wls", "File too large", "Try: ", "ulimit -f"}},
    };
}

std::vector<Provoked> resumes() {
    return {
        {"NothingToResume",
         with_settings([](Settings& settings, Sandbox&) { settings["resume"] = "auto"; }),
         kUsage,
         {"resume", "neither a checkpoint nor a working store", "Try: start the run without resume"}},
        {"NoSuchStep",
         [](Sandbox& sandbox) { return sandbox.train(finished_run(sandbox), {"--resume=7"}); },
         kUsage,
         {"no checkpoint of step 7", "Try: one of: 2"}},
        {"NotAStep",
         with_settings([](Settings& settings, Sandbox&) { settings["resume"] = "last"; }),
         kUsage,
         {"resume", "\"last\" is neither auto nor a step"}},
        {"OtherSeed", resume_with({{"seed", "7"}}), kUsage, {"not be the same run", "seed was 42, is 7", "Try: "}},
        {"OtherBatch",
         resume_with({{"per_device_train_batch_size", "2"}, {"gradient_accumulation_steps", "1"}}),
         kUsage,
         {"per_device_train_batch_size was 1, is 2", "gradient_accumulation_steps was 2, is 1"}},
        {"OtherDtype", resume_with({{"dtype", "f32"}}), kUsage, {"dtype was bf16, is f32"}},
        {"OtherRows",
         [](Sandbox& sandbox) {
             Settings settings = finished_run(sandbox);
             settings["train_data"] = sandbox.rows("other.jsonl", {R"({"text": "a"})", R"({"text": "b"})"});
             return sandbox.train(settings, {"--resume"});
         },
         kUsage,
         {"training rows was"}},
        {"DamagedState", resume_damaged("state.wls", "--resume=2"), kStorage, {"checkpoint-2", "state.wls", "Try: "}},
        {"DamagedModelOfCheckpoint",
         resume_damaged("model/model.safetensors", "--resume=2"),
         kStorage,
         {"checkpoint-2", "model/model.safetensors"}},
        {"DamagedManifest", resume_damaged("manifest.json", "--resume=2"), kStorage, {"checkpoint-2/manifest.json"}},
        {"DamagedOnlyCheckpoint",
         resume_damaged("state.wls", "--resume"),
         kUsage,
         {"warning: skipped", "checkpoint-2", "state.wls", "neither a checkpoint nor a working store"}},
        {"DamagedWorkingStore",
         resume_damaged_store,
         kStorage,
         {".wls", "chunks are damaged, the first is", "elements [", "Try: resume from a checkpoint"}},
        {"ExportOfDamagedStep",
         [](Sandbox& sandbox) {
             finished_run(sandbox);
             flip_byte(sandbox.out() + "/checkpoint-2/state.wls", -100);
             return sandbox.windlass({"export", sandbox.out() + ":2", "--to", sandbox / "x"});
         },
         kStorage,
         {"checkpoint-2", "state.wls"}},
    };
}

class StorageErrors : public testing::TestWithParam<Provoked> {};

TEST_P(StorageErrors, NameThePlace) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Folder, StorageErrors, testing::ValuesIn(folders()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Permission, StorageErrors, testing::ValuesIn(permissions()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Resume, StorageErrors, testing::ValuesIn(resumes()), name_of_provoked);

TEST(FullDisk, RunIsRefusedBeforeItStarts) {
    Sandbox sandbox;
    const SmallDisk disk(sandbox / "small", 128 << 10);
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
    Settings settings = sandbox.training();
    settings["output_dir"] = sandbox / "small/run";
    const Finished finished = run(sandbox.train(settings));
    EXPECT_EQ(finished.code, kStorage) << describe(finished);
    for (const char* part : {"small/run", "the trained model needs", "are free", "Try: another output_dir"})
        EXPECT_THAT(finished.err, testing::HasSubstr(part));
}

// No checkpoint fits, the model does: the run warns, goes on and ends well.
TEST(FullDisk, CheckpointsThatDoNotFitDoNotEndTheRun) {
    Sandbox sandbox;
    const SmallDisk disk(sandbox / "small", 4 << 20);
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
    Settings settings = sandbox.training();
    settings["output_dir"] = sandbox / "small/run";
    settings["save_steps"] = "1";
    const Finished finished = run(sandbox.train(settings));
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_THAT(finished.err, testing::HasSubstr("warning: checkpoint 1 is not saved"));
    EXPECT_TRUE(fs::exists(sandbox / "small/run/final/model.safetensors"));
    EXPECT_THAT(unfinished_in(sandbox / "small"), testing::IsEmpty());
}

TEST(FullDisk, ExportLeavesNothing) {
    Sandbox sandbox;
    const SmallDisk disk(sandbox / "small", 128 << 10);
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
    finished_run(sandbox);
    const Finished finished = run(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "small/model"}));
    EXPECT_EQ(finished.code, kStorage) << describe(finished);
    EXPECT_TRUE(fs::is_empty(sandbox / "small"));
}

// Files with rates of drives in the sandbox's cache.
std::vector<fs::path> kept_drives(const Sandbox& sandbox) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(sandbox.cache() + "/windlass"))
        if (entry.path().filename().string().find("-drive") != std::string::npos) found.push_back(entry.path());
    return found;
}

// Rates are kept by the number of a drive, which a small disk may have from an earlier one.
void forget_drives(const Sandbox& sandbox) {
    for (const fs::path& path : kept_drives(sandbox)) fs::remove(path);
}

TEST(FullDisk, StoreThatDoesNotFitIsRefused) {
    Sandbox sandbox;
    const SmallDisk disk(sandbox / "ssd", 128 << 10);
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
    forget_drives(sandbox);
    const Finished finished = run(sandbox.train(sandbox.training_on_disk()));
    EXPECT_EQ(finished.code, kNoFit) << describe(finished);
    EXPECT_THAT(finished.err, testing::HasSubstr("are free, too little to measure the drive"));
    EXPECT_THAT(finished.err, testing::HasSubstr("Try: --ssd-dir DIR --ssd-space"));
    EXPECT_TRUE(fs::is_empty(sandbox / "ssd"));
}

int drive_warnings(const std::string& text) {
    constexpr std::string_view kWarning = "are free, too little to measure the drive";
    int count = 0;
    for (size_t at = 0; (at = text.find(kWarning, at)) != std::string::npos; at += kWarning.size()) ++count;
    return count;
}

// There is room for its store, but not for the usual probe, or for none at all.
TEST(FullDisk, SmallDrivesAreMeasuredInLessOrAssumed) {
    for (const auto& [bytes, warnings] : {std::pair{40 << 20, 0}, {10 << 20, 1}}) {
        Sandbox sandbox;
        const SmallDisk disk(sandbox / "ssd", bytes);
        if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
        forget_drives(sandbox);
        const Finished finished = must_succeed(sandbox.train(sandbox.training_on_disk()));
        EXPECT_EQ(drive_warnings(finished.err), warnings) << finished.err;
        // What is assumed is not kept, nor are rates that the run itself doubted.
        const bool is_doubted = finished.err.find("which was measured under load") != std::string::npos;
        EXPECT_EQ(std::ssize(kept_drives(sandbox)), is_doubted ? 0 : 1 - warnings) << finished.err;
    }
}

void fill_drive(const std::string& folder) {
    std::ofstream file(folder + "/other", std::ios::binary);
    const std::string piece(4096, 'x');
    while (file.write(piece.data(), std::ssize(piece)).flush()) continue;
    ASSERT_EQ(fs::space(folder).available, 0u);
}

TEST(FullDisk, ARunContinuesFromItsOwnStore) {
    Sandbox sandbox;
    const SmallDisk disk(sandbox / "ssd", 64 << 20);
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a small disk";
    Settings settings = sandbox.training_on_disk();
    settings["save_steps"] = "null";  // or a checkpoint would replace the store
    must_succeed(sandbox.train(settings));
    fill_drive(sandbox / "ssd");
    const auto resume = [&](const char* steps) {
        fs::remove_all(sandbox.out() + "/final");
        settings["max_steps"] = steps;
        const Finished finished = must_succeed(sandbox.train(settings, {"--resume"}));
        EXPECT_THAT(finished.err, testing::HasSubstr("working store"));
        EXPECT_TRUE(fs::exists(sandbox.out() + "/final/model.safetensors"));
        return finished.err;
    };
    EXPECT_EQ(drive_warnings(resume("4")), 0);
    // By another user, or where the drive has a new number: its rates are not kept.
    forget_drives(sandbox);
    EXPECT_EQ(drive_warnings(resume("6")), 1);
    EXPECT_THAT(kept_drives(sandbox), testing::IsEmpty());
}

TEST(Lock, OneProcessAtATimeWritesIntoAFolder) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "1000000";
    Process first(sandbox.train(settings));
    ASSERT_TRUE(wait_until([&] { return !metrics_of(sandbox.out()).empty() || !first.is_running(); }, 60));
    const Finished second = run(sandbox.train(settings, {"--resume"}));
    EXPECT_EQ(second.code, kStorage) << describe(second);
    EXPECT_THAT(second.err, testing::HasSubstr("another process is training into this folder"));
    EXPECT_TRUE(first.is_running());
}

}  // namespace
}  // namespace windlass::cli
