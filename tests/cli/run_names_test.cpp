// A run is named by its folder or by the run.yaml in it, wherever a verb takes a configuration or a run; and what a run
// says at its end, or when it is stopped, is typed as it was said.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A command as it was printed, typed into a shell. The program is that of this build; `hf` is only looked at.
Command typed(const Sandbox& sandbox, const std::string& line) {
    Command command = sandbox.windlass({});
    const std::string program = std::exchange(command.words.front(), "/bin/sh");
    command.words.insert(command.words.end(),
                         {"-c", fmt::format("windlass() {{ '{}' \"$@\"; }}\n{} < /dev/null", program, line)});
    return command;
}

TEST(RunNames, AFolderMeansItsSettings) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["lr_scheduler_type"] = "constant";
    must_succeed(sandbox.train(settings));
    EXPECT_THAT(must_succeed(sandbox.windlass({"train", sandbox.out(), "--resume"})).err,
                HasSubstr("Already finished (step 2 of 2)"));
    must_succeed(sandbox.windlass({"train", sandbox.out() + "/", "--resume", "--max-steps=3"}));
    EXPECT_EQ(metrics_of(sandbox.out()).size(), 3u);
    must_succeed(sandbox.windlass({"plan", sandbox.out(), "--alone"}));
    must_succeed(sandbox.windlass({"data", "stats", sandbox.out()}));
    must_succeed(sandbox.windlass({"export", sandbox.out() + "/run.yaml", "--to", sandbox / "exported"}));
    must_succeed(sandbox.windlass({"inspect", sandbox.out() + "/run.yaml"}));
    must_succeed(sandbox.windlass({"generate", sandbox.out() + "/run.yaml", "--prompt", "a", "--max-new-tokens", "1"}));
    must_succeed(
        sandbox.windlass({"eval", sandbox.out() + "/run.yaml", "--data", sandbox.token_rows(), "--max-length", "32"}));
}

TEST(RunNames, AFolderWithoutSettingsIsOneError) {
    Sandbox sandbox;
    for (const char* verb : {"train", "plan"}) {
        const Finished finished = run(sandbox.windlass({verb, sandbox.model()}));
        EXPECT_EQ(finished.code, kUsage) << describe(finished);
        EXPECT_THAT(finished.err, HasSubstr("is a folder without a run.yaml"));
        EXPECT_THAT(finished.err, Not(HasSubstr("errno")));
    }
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"config", "from", sandbox.model()},
          {"doctor", "--machine", sandbox.model()},
          {"replay", sandbox.model(), sandbox.model(), "--to", sandbox / "to"}}) {
        const Finished finished = run(sandbox.windlass(words));
        EXPECT_NE(finished.code, 0) << describe(finished);
        EXPECT_THAT(finished.err, HasSubstr("is a folder, expected a file")) << words[0];
    }
}

// A configuration that a user wrote is neither a run that has not ended, nor a run to be overwritten.
TEST(RunNames, AConfigurationIsNoRun) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    fs::create_directory(sandbox.out());
    std::string yaml;
    for (const auto& [key, value] : settings) yaml += fmt::format("{}: {}\n", key, value);
    write_bytes(sandbox.out() + "/run.yaml", yaml);
    const Finished inspected = run(sandbox.windlass({"inspect", sandbox.out()}));
    EXPECT_EQ(inspected.code, kModel) << describe(inspected);
    EXPECT_THAT(inspected.err, Not(HasSubstr("has not ended")));
    EXPECT_THAT(inspected.err, HasSubstr(fmt::format("Try: windlass train {}/run.yaml", sandbox.out())));
    for (const char* how : {"--quiet", "--overwrite", "--resume"}) {
        const Finished refused = run(sandbox.windlass({"train", sandbox.out(), how}));
        EXPECT_EQ(refused.code, kUsage) << describe(refused);
        EXPECT_THAT(refused.err, HasSubstr("what it holds is not a run"));
        EXPECT_EQ(read_bytes(sandbox.out() + "/run.yaml"), yaml) << how;
    }
}

// A run's folder that was moved or copied, or is named from another folder: what is offered continues it, and no empty
// folder takes the old one's place.
TEST(RunNames, AMovedFolderIsOffered) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["lr_scheduler_type"] = "constant";
    must_succeed(sandbox.train(settings));
    const std::string moved = sandbox / "it's moved";
    fs::rename(sandbox.out(), moved);
    fs::remove_all(moved + "/final");
    for (const std::string& named : {moved, moved + "/run.yaml", moved + "/"}) {
        for (const char* const how : {"--resume", "--resume=2"}) {
            const Finished refused = run(sandbox.windlass({"train", named, how, "--max-steps=3"}));
            EXPECT_EQ(refused.code, kUsage) << describe(refused);
            EXPECT_THAT(refused.err, HasSubstr("Try: --output-dir '" + (sandbox / "it'\\''s moved") + "', where "));
            EXPECT_FALSE(fs::exists(sandbox.out()));
        }
    }
    fs::create_directory(sandbox.out());  // of an earlier try
    const Finished refused = run(sandbox.windlass({"train", moved, "--resume"}));
    EXPECT_THAT(refused.err, HasSubstr("Try: --output-dir "));
    must_succeed(sandbox.windlass({"train", moved, "--resume", "--max-steps=3", "--output-dir", moved}));
    EXPECT_EQ(metrics_of(moved).size(), 3u);
}

Command from_folder(const std::string& folder, Command command) {
    std::vector<std::string> words = {"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", folder};
    words.insert(words.end(), command.words.begin(), command.words.end());
    command.words = std::move(words);
    return command;
}

// A run of an adapter, started in the sandbox with relative paths.
Settings relative_run(Sandbox& sandbox) {
    Settings settings = sandbox.training();
    fs::create_directory(sandbox / "models");
    fs::rename(sandbox.model(), sandbox / "models/base");
    settings["model"] = "models/base";
    settings["train_data"] = "rows.jsonl";
    settings["output_dir"] = "runs/a";
    settings["adapter"] = "lora";
    settings["lr_scheduler_type"] = "constant";
    return settings;
}

TEST(RunNames, RelativePathsOfARunAreFoundFromAnywhere) {
    Sandbox sandbox;
    const Settings settings = relative_run(sandbox);
    must_succeed(from_folder(sandbox.path(), sandbox.train(settings)));
    const std::string run_folder = sandbox / "runs/a";
    fs::create_directory(sandbox / "elsewhere");
    const auto elsewhere = [&](const std::vector<std::string>& words) {
        return must_succeed(from_folder(sandbox / "elsewhere", sandbox.windlass(words)));
    };
    elsewhere({"eval", run_folder + "/final", "--data", sandbox / "rows.jsonl", "--max-length", "32"});
    elsewhere({"eval", run_folder + "/checkpoint-2", "--data", sandbox / "rows.jsonl", "--max-length", "32"});
    elsewhere({"export", run_folder, "--merged", "--to", sandbox / "merged"});
    elsewhere({"train", run_folder, "--resume", "--max-steps=3", "--output-dir", run_folder});
    // A configuration of a user, by its own folder.
    write_bytes(sandbox / "user.yaml", "model: models/base\ntrain_data: rows.jsonl\n");
    elsewhere({"train", sandbox / "user.yaml", "--output-dir", "b", "--max-steps=1", "--max-length=32"});
}

TEST(RunNames, AMovedBaseIsNamedByModel) {
    Sandbox sandbox;
    must_succeed(from_folder(sandbox.path(), sandbox.train(relative_run(sandbox))));
    const std::string run_folder = sandbox / "runs/a";
    must_succeed(sandbox.windlass({"export", run_folder, "--merged", "--to", sandbox / "before"}));
    fs::rename(sandbox / "models/base", sandbox / "moved");
    fs::copy(sandbox / "moved", sandbox / "other");
    flip_byte(sandbox / "other/model.safetensors", -100);
    for (const std::string& source : {run_folder, run_folder + ":2", run_folder + "/checkpoint-2"}) {
        std::vector<std::string> words = {"export", source, "--merged", "--to", sandbox / "after", "--overwrite"};
        const Finished refused = run(sandbox.windlass(words));
        EXPECT_EQ(refused.code, kModel) << describe(refused);
        EXPECT_THAT(refused.err,
                    testing::AllOf(HasSubstr("Try: "), HasSubstr("--model FOLDER"), Not(HasSubstr("hf "))));
        words.insert(words.end(), {"--model", sandbox / "moved"});
        must_succeed(sandbox.windlass(words));
        EXPECT_EQ(read_bytes(sandbox / "after/model.safetensors"), read_bytes(sandbox / "before/model.safetensors"));
        words.back() = sandbox / "other";
        EXPECT_THAT(run(sandbox.windlass(words)).err, HasSubstr("was trained over a base of checksum "));
    }
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"eval", run_folder + "/final", "--data", sandbox / "rows.jsonl"},
          {"train", run_folder, "--resume", "--output-dir", run_folder, "--max-steps=3"},
          {"inspect", "models/base"}}) {
        const Finished refused = run(sandbox.windlass(words));
        EXPECT_EQ(refused.code, kModel) << describe(refused);
        EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("Try: "), Not(HasSubstr("hf download")))) << words[0];
    }
    const Finished whole =
        run(sandbox.windlass({"export", sandbox / "before", "--to", sandbox / "x.gguf", "--model", sandbox / "moved"}));
    EXPECT_THAT(whole.err, HasSubstr("Try: leave --model out"));
}

class SaidAtTheEnd : public testing::TestWithParam<Settings> {};

TEST_P(SaidAtTheEnd, IsWhatWorks) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings.merge(Settings(GetParam()));
    settings["output_dir"] = sandbox / "it's out";
    const Finished done = must_succeed(sandbox.train(settings, {"--json"}));
    const Json next = parse_json(done.out, "stdout", ExitCode::internal).at("next");
    EXPECT_EQ(said_after(done.err, "Next: "), next.at("generate").get<std::string>());
    must_succeed(typed(sandbox, next.at("generate").get<std::string>() + " --max-new-tokens 1"));
    EXPECT_THAT(done.err, HasSubstr("      " + next.at("export").get<std::string>() + "\n"));
    must_succeed(typed(sandbox, next.at("export")));
    EXPECT_TRUE(fs::exists(sandbox / "it's out.gguf"));
    EXPECT_THAT(done.err, HasSubstr("      hf upload OWNER/NAME '"));
    EXPECT_EQ(next.at("ollama"),
              fmt::format("echo 'FROM {}/it'\\''s out.gguf' > Modelfile && ollama create it-s-out", sandbox.path()));
    EXPECT_THAT(next.at("serve").get<std::string>(),
                testing::AllOf(testing::StartsWith("vllm serve "), HasSubstr("it'\\''s out/final")));
    EXPECT_EQ(next.at("serve").get<std::string>().find(" --enable-lora --lora-modules 'it-s-out=") != std::string::npos,
              GetParam().contains("adapter"));
    EXPECT_THAT(next.at("upload").get<std::string>(), HasSubstr("it'\\''s out/final"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SaidAtTheEnd,
                         testing::Values(Settings{{"save_steps", "null"}}, Settings{{"adapter", "lora"}}),
                         [](const auto& info) {
                             return info.param.contains("adapter") ? "AnAdapter" : "AModelWithoutACheckpoint";
                         });

// An adapter without a state cannot be merged; OPT has no GGUF.
TEST(SaidAtTheEnd, NamesNoExportThatFails) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["adapter"] = "lora";
    settings["save_steps"] = "null";
    EXPECT_FALSE(json_of(sandbox.train(settings, {"--json"})).at("next").contains("export"));
    settings["use_dora"] = "true";
    settings["output_dir"] = sandbox / "dora-out";
    EXPECT_FALSE(json_of(sandbox.train(settings, {"--json"})).at("next").contains("serve")) << "vLLM has no DoRA";
    settings = sandbox.training("opt");
    settings["output_dir"] = sandbox / "opt-out";
    const Json next = json_of(sandbox.train(settings, {"--json"})).at("next");
    EXPECT_FALSE(next.contains("export"));
    EXPECT_FALSE(next.contains("ollama"));
}

TEST(SaidAtAStop, IsTheWholeCommand) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["output_dir"] = sandbox / "my run";
    settings["max_steps"] = "100000";
    settings["lr_scheduler_type"] = "constant";
    Process process(sandbox.train(settings, {"--json"}));
    ASSERT_TRUE(wait_until([&] { return metrics_of(settings["output_dir"]).size() >= 2; }, 60)) << process.messages();
    process.send(SIGINT);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 130) << describe(stopped);
    const std::string command = said_after(stopped.err, "To continue: ");
    EXPECT_EQ(command, fmt::format("windlass train '{}/my run/run.yaml' --resume", sandbox.path()));
    EXPECT_EQ(parse_json(stopped.out, "stdout", ExitCode::internal).at("resume"), command);
    const auto done = static_cast<int64_t>(metrics_of(settings["output_dir"]).size());
    must_succeed(typed(sandbox, fmt::format("{} max_steps={}", command, done + 1)));
    EXPECT_EQ(std::ssize(metrics_of(settings["output_dir"])), done + 1);
}

}  // namespace
}  // namespace windlass::cli
