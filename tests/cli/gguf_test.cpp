// GGUF files through the real program: out of runs, checkpoints and folders, and what is refused.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/cli/provoked.h"
#include "tests/cli/sandbox.h"
#include "tests/unit/format/gguf_bytes.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

class GgufFiles : public testing::Test {
  protected:
    // The file's bytes; its name is the model's.
    std::string exported(const std::string& source, const std::string& folder, std::vector<std::string> more = {}) {
        fs::create_directories(sandbox_ / folder);
        const std::string target = sandbox_ / (folder + "/tuned.gguf");
        more.insert(more.begin(), {"export", source, "--to", target});
        must_succeed(sandbox_.windlass(more));
        return read_bytes(target);
    }
    Sandbox sandbox_;
};

// Masters are f32, and norms are f32 in the file: final/ has them rounded to the base's type, this folder as they are.
TEST_F(GgufFiles, ARunItsCheckpointAndAFolderOfItsMastersGiveTheSameFile) {
    Settings settings = sandbox_.training();
    settings["save_steps"] = "1";
    must_succeed(sandbox_.train(settings));
    const std::string of_run = exported(sandbox_.out(), "run");
    EXPECT_TRUE(of_run == exported(sandbox_.out() + ":2", "step"));
    EXPECT_TRUE(of_run == exported(sandbox_.out() + "/checkpoint-2", "checkpoint"));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--dtype", "f32", "--to", sandbox_ / "f32"}));
    EXPECT_TRUE(of_run == exported(sandbox_ / "f32", "masters", {"--type", "bf16"}));
    EXPECT_FALSE(of_run == exported(sandbox_.out() + ":1", "first"));
    EXPECT_FALSE(of_run == exported(sandbox_.model(), "model"));
    EXPECT_THAT(unfinished_in(sandbox_.path()), testing::IsEmpty());
}

TEST_F(GgufFiles, TheStateOnDiskGivesTheFileOfItsMasters) {
    must_succeed(sandbox_.train(sandbox_.training_on_disk()));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--dtype", "f32", "--to", sandbox_ / "f32"}));
    for (const char* type : {"f32", "f16", "bf16", "q8_0"})
        EXPECT_TRUE(exported(sandbox_.out(), fmt::format("run-{}", type), {"--type", type}) ==
                    exported(sandbox_ / "f32", fmt::format("folder-{}", type), {"--type", type}))
            << type;
}

TEST_F(GgufFiles, HoldTheTokenizerAndTheTemplate) {
    const std::string model = sandbox_.model();
    write_bytes(model + "/chat_template.jinja", "{{ messages[0].content }}\n");
    write_bytes(model + "/manifest.json", "[\"of another program\"]");
    const GgufBytes read = GgufBytesReader(exported(model, "x", {"--type", "q8_0"})).read();
    EXPECT_EQ(read.values.at("tokenizer.chat_template"), "{{ messages[0].content }}\n");
    EXPECT_EQ(read.values.at("tokenizer.ggml.model"), "gpt2");
    EXPECT_EQ(read.values.at("general.name"), "tuned");
    EXPECT_EQ(read.tensors.at("blk.0.attn_v.weight").type, 8u);
}

TEST_F(GgufFiles, OfAnAdapterAreMergedModels) {
    Settings settings = sandbox_.training();
    settings["adapter"] = "lora";
    must_succeed(sandbox_.train(settings));
    const Finished refused = run(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "x.gguf"}));
    EXPECT_EQ(refused.code, kUsage);
    EXPECT_THAT(refused.err, testing::HasSubstr("Try: --merged"));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "merged"}));
    EXPECT_TRUE(exported(sandbox_.out(), "run", {"--merged"}) == exported(sandbox_ / "merged", "folder"));
}

// The run is asked, and writes the file of a step whose checkpoint it keeps too.
TEST_F(GgufFiles, OfARunThatGoesOnAreThoseOfItsStep) {
    for (const bool on_disk : {false, true}) {
        Settings settings = on_disk ? sandbox_.training_on_disk() : sandbox_.training();
        settings["output_dir"] = sandbox_ / (on_disk ? "disk" : "memory");
        settings["max_steps"] = "100000";
        settings["save_steps"] = "1";
        settings["save_total_limit"] = "null";
        Process training(sandbox_.train(settings));
        const std::string run = settings["output_dir"], target = run + "-asked/tuned.gguf";
        ASSERT_TRUE(wait_until([&] { return fs::exists(run + "/checkpoint-2"); }, 60)) << training.messages();
        const Json asked = json_of(sandbox_.windlass({"export", run, "--to", target, "--type", "q8_0", "--json"}));
        EXPECT_TRUE(training.is_running());
        training.send(SIGINT);
        EXPECT_EQ(training.wait().code, 128 + SIGINT);
        const std::string step = std::to_string(asked.at("step").get<int64_t>());
        EXPECT_TRUE(read_bytes(target) ==
                    exported(run + ":" + step, fmt::format("again-{}", on_disk), {"--type", "q8_0"}));
    }
}

// A killed export leaves nothing under the name, or the whole file; the next one is not in its way.
TEST_F(GgufFiles, AppearWholeOrNotAtAllWhenTheProgramIsKilled) {
    const std::string model = sandbox_.model(), target = sandbox_ / "killed/tuned.gguf";
    const std::string whole = exported(model, "whole");
    bool was_early = false;
    for (int milliseconds = 0; milliseconds < 100; milliseconds += 5) {
        fs::remove(target);
        Process process(sandbox_.windlass({"export", model, "--to", target}));
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        process.send(SIGKILL);
        process.wait();
        was_early = was_early || !fs::exists(target);
        if (fs::exists(target)) {
            EXPECT_TRUE(read_bytes(target) == whole) << milliseconds;
        }
    }
    EXPECT_TRUE(was_early);
    EXPECT_TRUE(exported(model, "killed", {"--overwrite"}) == whole);
    EXPECT_THAT(unfinished_in(sandbox_.path()), testing::IsEmpty());
}

TEST_F(GgufFiles, OfAReplayedStepAreThoseOfItsFolder) {
    Settings settings = sandbox_.training();
    settings["method"] = "zeroth_order";
    must_succeed(sandbox_.train(settings));
    const auto replay = [&](const std::string& to) -> std::vector<std::string> {
        return {"replay", sandbox_.model(), sandbox_.out() + "/trajectory.wlt", "--step", "1", "--to", sandbox_ / to};
    };
    must_succeed(sandbox_.windlass(replay("folder")));
    std::vector<std::string> words = replay("replayed/tuned.gguf");
    words.insert(words.end(), {"--type", "f32"});
    must_succeed(sandbox_.windlass(words));
    EXPECT_TRUE(read_bytes(sandbox_ / "replayed/tuned.gguf") ==
                exported(sandbox_ / "folder", "again", {"--type", "f32"}));
}

TEST_F(GgufFiles, AreNotReplayedOfAnAdapter) {
    Settings settings = sandbox_.training();
    settings["method"] = "zeroth_order";
    settings["adapter"] = "lora";
    must_succeed(sandbox_.train(settings));
    const Finished refused = run(sandbox_.windlass(
        {"replay", sandbox_.model(), sandbox_.out() + "/trajectory.wlt", "--to", sandbox_ / "x.gguf"}));
    EXPECT_EQ(refused.code, kUsage);
    EXPECT_THAT(refused.err, testing::HasSubstr("trained an adapter"));
    EXPECT_THAT(refused.err, testing::HasSubstr("Try: --to a folder"));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "x.gguf"}));
}

std::function<Command(Sandbox&)> exporting(std::vector<std::string> more, const std::string& model = "llama_tiny") {
    return [=](Sandbox& sandbox) {
        std::vector<std::string> words = {"export", sandbox.model(model), "--to"};
        for (const std::string& word : more) words.push_back(word.starts_with("./") ? sandbox / word.substr(2) : word);
        return sandbox.windlass(words);
    };
}

const std::vector<Provoked> kErrors = {
    {"NoSuchType", exporting({"./x.gguf", "--type", "q4_k"}), kUsage, {"--type", "q4_k", "f32, f16, bf16 or q8_0"}},
    {"TypeOfAFolder", exporting({"./x", "--type", "q8_0"}), kUsage, {"--type", "Try: --to model.gguf"}},
    {"DtypeOfAFile", exporting({"./x.gguf", "--dtype", "bf16"}), kUsage, {"--dtype", "Try: --type"}},
    {"ShardsOfAFile", exporting({"./x.gguf", "--max-shard-size", "1GB"}), kUsage, {"--max-shard-size", "one file"}},
    {"TypeOfAReplayedFolder",
     [](Sandbox& sandbox) {
         return sandbox.windlass(
             {"replay", sandbox.model(), sandbox / "no.wlt", "--to", sandbox / "x", "--type", "f32"});
     },
     kUsage,
     {"--type", "Try: --to model.gguf"}},
    {"NoArchitecture",
     exporting({"./x.gguf"}, "opt"),
     kModel,
     {"models of type opt are not exported to GGUF", "Try: "}},
    {"TargetThatIsThere",
     [](Sandbox& sandbox) {
         write_bytes(sandbox / "x.gguf", "GGUF");
         return exporting({"./x.gguf"})(sandbox);
     },
     kStorage,
     {"x.gguf", "is there already", "Try: --overwrite"}},
    {"TargetThatIsNoGgufFile",
     [](Sandbox& sandbox) {
         write_bytes(sandbox / "x.gguf", "notes");
         return exporting({"./x.gguf", "--overwrite"})(sandbox);
     },
     kStorage,
     {"x.gguf", "is not a GGUF file"}},
};

class GgufErrors : public testing::TestWithParam<Provoked> {};
TEST_P(GgufErrors, AreRefused) {
    expect_refused(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Gguf, GgufErrors, testing::ValuesIn(kErrors), name_of_provoked);

}  // namespace
}  // namespace windlass::cli
