// --download: a model of the Hub comes into the cache by `hf`, which a script plays here, as old and new versions read
// their patterns.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Copies what the patterns name into the cache, as huggingface_hub lays it out, as revision 1a2b or the one asked for.
// Since version 1 each --include takes one pattern, and a second word is a file's name; before, the last had all.
constexpr const char* kHub = R"sh(#!/bin/sh
echo called >> "@calls"
printf '%s\n' "$@" >> "@words"
is_new=@is_new
patterns= cache= revision=1a2b id=$2
shift 2
while [ $# -gt 0 ]; do
    case "$1" in
    --cache-dir) cache=$2; shift 2;;
    --revision) revision=$2; shift 2;;
    --exclude) shift 2;;
    --include)
        shift
        [ $is_new = 1 ] || patterns=
        while [ $# -gt 0 ]; do
            case "$1" in --*) break;; esac
            patterns="$patterns|$1"
            shift
            [ $is_new = 0 ] || break
        done;;
    *) echo "no such file: $1" >&2; exit 1;;
    esac
done
repo="$cache/models--$(echo "$id" | sed s,/,--,)"
mkdir -p "$repo/blobs" "$repo/refs" "$repo/snapshots/$revision"
printf %s "$revision" > "$repo/refs/main"
IFS='|'
set -f
for name in $(cd "@source" && ls | tr '\n' '|'); do
    for pattern in $patterns; do
        case "$name" in
        $pattern)
            [ -n "$pattern" ] || continue
            cp "@source/$name" "$repo/blobs/$name"
            ln -sf "../../blobs/$name" "$repo/snapshots/$revision/$name";;
        esac
    done
done
echo "$repo/snapshots/$revision"
)sh";

class Downloads : public testing::Test {
  protected:
    // The program of this name does what the text says.
    void put_program(const std::string& text, const std::string& name = "hf") {
        fs::create_directories(sandbox_ / "bin");
        const std::string path = sandbox_ / "bin/" + name;
        write_bytes(path, text);
        fs::permissions(path, fs::perms::owner_all);
    }
    void put_hub(bool is_new = true, const std::string& name = "hf") {
        const std::string source = sandbox_ / "source";
        fs::copy(sandbox_.model(), source);
        write_bytes(source + "/pytorch_model.bin", "a pickle");
        write_bytes(source + "/README.md", "---\nlicense: mit\n---\n");
        std::string text = kHub;
        for (const auto& [word, value] : std::map<std::string, std::string>{{"@calls", sandbox_ / "calls"},
                                                                            {"@words", sandbox_ / "words"},
                                                                            {"@is_new", is_new ? "1" : "0"},
                                                                            {"@source", source}})
            for (size_t at = 0; (at = text.find(word)) != text.npos;) text.replace(at, word.size(), value);
        put_program(text, name);
    }
    Command with_hub(Command command) const {
        command.environment["PATH"] = sandbox_ / "bin:/usr/bin:/bin";
        command.environment["HF_HUB_CACHE"] = sandbox_ / "hub";
        return command;
    }
    Command train(const std::string& model = "some/tiny", const std::vector<std::string>& more = {"--download"}) {
        Settings settings = sandbox_.training();
        settings["model"] = model;
        return with_hub(sandbox_.train(settings, more));
    }
    Command verb(const std::vector<std::string>& words) const { return with_hub(sandbox_.windlass(words)); }
    // How often the Hub's program was started.
    int64_t calls() const {
        if (!fs::exists(sandbox_ / "calls")) return 0;
        return std::ranges::count(read_bytes(sandbox_ / "calls"), '\n');
    }
    std::string words_of_calls() const { return read_bytes(sandbox_ / "words"); }
    std::string refusal(const Command& command, int code) {
        const Finished finished = run(command);
        EXPECT_EQ(finished.code, code) << describe(finished);
        EXPECT_EQ(finished.out, "");
        return finished.err;
    }

    Sandbox sandbox_;
    const std::string snapshot_ = sandbox_ / "hub/models--some--tiny/snapshots/1a2b";
};

TEST_F(Downloads, ARunGetsItsModel) {
    put_hub();
    const Finished finished = must_succeed(train());
    EXPECT_EQ(finished.out, sandbox_.out() + "/final\n");  // what hf prints is a message here
    EXPECT_THAT(finished.err, AllOf(HasSubstr("downloading some/tiny: hf download some/tiny"), HasSubstr(snapshot_)));
    EXPECT_THAT(words_of_calls(), AllOf(HasSubstr("--include\n*.safetensors\n"), Not(HasSubstr("--revision"))));
    EXPECT_FALSE(fs::exists(snapshot_ + "/pytorch_model.bin"));
    EXPECT_EQ(calls(), 1);
    must_succeed(train("some/tiny", {"--download", "--overwrite"}));
    EXPECT_EQ(calls(), 1) << "the cache has it";
}

TEST_F(Downloads, VersionsThatReadPatternsInOneListAreAskedSo) {
    put_hub(/*is_new=*/false);
    must_succeed(train());
    EXPECT_TRUE(fs::exists(snapshot_ + "/tokenizer.json"));
    EXPECT_FALSE(fs::exists(snapshot_ + "/pytorch_model.bin"));
}

TEST_F(Downloads, TheOlderProgramServesWhereThereIsNoHf) {
    put_hub(/*is_new=*/false, "huggingface-cli");
    must_succeed(train());
}

TEST_F(Downloads, PlansNeedNoWeights) {
    put_hub();
    must_succeed(verb({"plan", "--model", "some/tiny", "--max-length", "32", "--alone", "--download"}));
    EXPECT_TRUE(fs::exists(snapshot_ + "/config.json"));
    EXPECT_FALSE(fs::exists(snapshot_ + "/model.safetensors"));
    must_succeed(verb({"inspect", "some/tiny", "--download"}));
    EXPECT_EQ(calls(), 1);
    must_succeed(train());  // which gets them
    EXPECT_EQ(calls(), 2);
}

TEST_F(Downloads, WhatWasCutOffIsContinued) {
    put_hub();
    must_succeed(train());
    write_bytes(snapshot_ + "/model.safetensors.index.json",
                R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
    EXPECT_THAT(refusal(train("some/tiny", {"--download", "--overwrite"}), kModel), HasSubstr("no weights"));
    EXPECT_EQ(calls(), 2);
}

TEST_F(Downloads, EachVerbThatTakesAModelDownloadsIt) {
    put_program("#!/bin/sh\necho called >> '" + sandbox_ / "calls" + "'\nexit 3\n");
    const std::string rows = sandbox_.token_rows(), id = "some/tiny";
    const std::vector<std::vector<std::string>> verbs = {
        {"plan", "--model", id},
        {"train", "--model", id, "--train-data", rows, "--output-dir", sandbox_ / "o"},
        {"train", "--model", id, "--train-data", rows, "--output-dir", sandbox_ / "o", "--dry-run"},
        {"eval", id, "--data", rows},
        {"generate", id, "--prompt", "a"},
        {"chat", id},
        {"data", "show", "--model", id, "--train-data", rows},
        {"inspect", id},
        {"export", sandbox_ / "r", "--model", id, "--to", sandbox_ / "x"},
        {"replay", id, sandbox_ / "log", "--to", sandbox_ / "x"},
    };
    for (size_t i = 0; i < verbs.size(); ++i) {
        std::vector<std::string> words = verbs[i];
        words.emplace_back("--download");
        EXPECT_THAT(refusal(verb(words), kModel),
                    HasSubstr("some/tiny: was not downloaded: hf ended with exit code 3"));
        EXPECT_EQ(calls(), static_cast<int64_t>(i) + 1) << words[0];
    }
    EXPECT_THAT(refusal(verb({"inspect", id}), kModel), HasSubstr(", or --download, which runs hf"));
    EXPECT_EQ(calls(), std::ssize(verbs)) << "without the flag";
}

TEST_F(Downloads, AProgramThatIsKilledOrWritesNothingIsReported) {
    put_program("#!/bin/sh\nkill -9 $$\n");
    EXPECT_THAT(refusal(train(), kModel), HasSubstr("was not downloaded: hf was ended by signal 9"));
    put_program("#!/bin/sh\nexit 0\n");
    EXPECT_THAT(refusal(train(), kModel), HasSubstr("hf ended without an error, but the cache"));
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/run.yaml"));
}

TEST_F(Downloads, WithoutTheProgramTheErrorSaysHowToGetIt) {
    fs::create_directories(sandbox_ / "bin");
    Command command = train();
    command.environment["PATH"] = sandbox_ / "bin";
    EXPECT_THAT(refusal(command, kModel), AllOf(HasSubstr("no program \"hf\" in PATH"), HasSubstr("pip install hugg")));
}

TEST_F(Downloads, NamesThatAreNoIdsStartNothing) {
    put_hub();
    for (const char* const name : {"models/none", "a/b/c", "some/ti ny", "-x/y", "some/tiny;ls"})
        EXPECT_THAT(refusal(train(name), kUsage), HasSubstr("is neither a folder nor the id of a model")) << name;
    EXPECT_EQ(calls(), 0);
    must_succeed(train(sandbox_.model()));  // a folder needs no download
    EXPECT_EQ(calls(), 0);
}

TEST_F(Downloads, TheBaseOfAnAdapterIsDownloaded) {
    put_hub();
    must_succeed(train("some/tiny", {"--download", "adapter=lora"}));
    fs::remove_all(sandbox_ / "hub");
    must_succeed(verb({"eval", sandbox_.out(), "--data", sandbox_.token_rows(), "--download"}));
    EXPECT_EQ(calls(), 2);
}

TEST_F(Downloads, ARunThatResumesGetsItsRevision) {
    put_hub();
    must_succeed(train());
    fs::remove_all(sandbox_ / "hub");
    must_succeed(verb({"train", sandbox_.out(), "--resume", "max_steps=3", "--download"}));
    EXPECT_THAT(words_of_calls(), HasSubstr("--revision\n1a2b\n"));
}

TEST_F(Downloads, EndWithTheProgram) {
    for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
        fs::remove(sandbox_ / "pid");
        put_program("#!/bin/sh\necho $$ > '" + sandbox_ / "new" + "'\nmv '" + sandbox_ / "new" + "' '" +
                    sandbox_ / "pid" + "'\nexec sleep 100\n");
        Process process(train());
        ASSERT_TRUE(wait_until([&] { return fs::exists(sandbox_ / "pid"); }, 60));
        const pid_t child = std::stoi(read_bytes(sandbox_ / "pid"));
        process.send(signal);
        EXPECT_EQ(process.wait().signal, signal);
        // Reaped or not, it computes no more: a process that ended has no command line.
        const auto is_gone = [&] {
            const std::string words = fmt::format("/proc/{}/cmdline", child);
            return !fs::exists(words) || read_bytes(words).empty();
        };
        EXPECT_TRUE(wait_until(is_gone, 30)) << signal;
    }
}

}  // namespace
}  // namespace windlass::cli
