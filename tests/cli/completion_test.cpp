// Completion of shells, in the shells themselves.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

using Words = std::vector<std::string>;

std::string path_of_shell(const std::string& name) {
    for (const char* const folder : {"/usr/bin/", "/bin/", "/usr/local/bin/"})
        if (std::filesystem::exists(folder + name)) return folder + name;
    return "";
}

Words lines_of(const std::string& text) {
    Words lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

class Completion : public testing::Test {
  protected:
    // Leaves the path empty where the machine has no such shell.
    void use(const std::string& shell) {
        path_ = path_of_shell(shell);
        if (path_.empty()) return;
        write_bytes(sandbox_ / shell, must_succeed(sandbox_.windlass({"completion", shell})).out);
    }
    bool is_missing() const { return path_.empty(); }
    Finished run_shell(const Words& words) {
        Command command;
        command.words = words;
        command.words.insert(command.words.begin(), path_);
        command.environment["HOME"] = sandbox_.path();
        return run(command);
    }

    Sandbox sandbox_;
    std::string path_;
};

class BashCompletion : public Completion {
  protected:
    void SetUp() override {
        use("bash");
        if (is_missing()) GTEST_SKIP() << "there is no bash";
    }
    // What it offers for the last of these words, as bash splits them: at '=' too.
    Words offered(const Words& words) {
        std::string script = fmt::format("source {}\nCOMP_WORDS=(", sandbox_ / "bash");
        for (const std::string& word : words) script += fmt::format("'{}' ", word);
        script += fmt::format(")\nCOMP_CWORD={}\n_windlass\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n", words.size() - 1);
        const Finished finished = run_shell({"--norc", "--noprofile", "-c", script});
        EXPECT_EQ(finished.code, 0) << describe(finished);
        EXPECT_EQ(finished.err, "");
        Words lines = lines_of(finished.out);
        std::erase(lines, "");
        return lines;
    }
};

TEST_F(BashCompletion, OffersVerbsAndWhatTheyTake) {
    EXPECT_THAT(offered({"windlass", ""}), IsSupersetOf({"plan", "train", "completion", "help", "--version"}));
    EXPECT_THAT(offered({"windlass", "pl"}), ElementsAre("plan"));
    EXPECT_THAT(offered({"windlass", "help", "insp"}), ElementsAre("inspect"));
    EXPECT_THAT(offered({"windlass", "help", "tro"}), ElementsAre("troubleshooting"));
    EXPECT_THAT(offered({"windlass", "data", ""}), ElementsAre("show", "stats", "check", "keys"));
    EXPECT_THAT(offered({"windlass", "completion", ""}), ElementsAre("bash", "zsh", "fish"));
    EXPECT_THAT(offered({"windlass", "config", ""}), ElementsAre("from", "schema"));
    EXPECT_THAT(offered({"windlass", "config", "from", "--js"}), ElementsAre("--json"));
    EXPECT_THAT(offered({"windlass", "export", "--max"}), ElementsAre("--max-shard-size"));
    EXPECT_THAT(offered({"windlass", "status", "--follow", "--q"}), ElementsAre("--quiet"));
    EXPECT_THAT(offered({"windlass", "absent", "--q"}), IsEmpty());
}

TEST_F(BashCompletion, OffersSettingsAndTheirValues) {
    EXPECT_THAT(offered({"windlass", "train", "--learning-r"}), ElementsAre("--learning-rate"));
    EXPECT_THAT(offered({"windlass", "generate", "--learning-r"}), IsEmpty()) << "it reads no such setting";
    EXPECT_THAT(offered({"windlass", "train", "learning_r"}), ElementsAre("learning_rate="));
    EXPECT_THAT(offered({"windlass", "train", "--policy", ""}), Contains("three_tier"));
    EXPECT_THAT(offered({"windlass", "train", "--policy", "=", "thr"}), ElementsAre("three_tier"));
    EXPECT_THAT(offered({"windlass", "train", "policy", "=", "thr"}), ElementsAre("three_tier"));
    EXPECT_THAT(offered({"windlass", "train", "policy", "="}), Contains("in_memory"));
    EXPECT_THAT(offered({"windlass", "plan", "--preset", "z"}), IsSupersetOf({"zo2"}));
    EXPECT_THAT(offered({"windlass", "plan", "--machine", "rtx"}), Contains("rtx4090-desktop"));
    EXPECT_THAT(offered({"windlass", "eval", "--task", "sst"}), ElementsAre("sst2"));
}

TEST_F(BashCompletion, KnowsWhichFlagsHaveAValue) {
    EXPECT_THAT(offered({"windlass", "train", "--packing", "--see"}), ElementsAre("--seed")) << "it needs no value";
    EXPECT_THAT(offered({"windlass", "train", "--packing", "=", ""}), ElementsAre("true", "false"));
    EXPECT_THAT(offered({"windlass", "train", "--json", "=", "l"}), ElementsAre("lines"));
    EXPECT_THAT(offered({"windlass", "train", "--max-steps", "--s"}), IsEmpty()) << "a number follows";
    EXPECT_THAT(offered({"windlass", "export", "--merged", ""}), ElementsAre("base", "computed"));
    EXPECT_THAT(offered({"windlass", "export", "--merged", "--o"}), ElementsAre("--overwrite"));
}

TEST_F(BashCompletion, OffersFilesNextToSettings) {
    write_bytes(sandbox_ / "max_rows.yaml", "");
    const Words found = offered({"windlass", "train", sandbox_ / "max_r"});
    EXPECT_THAT(found, IsEmpty()) << "bash completes names of files where nothing else fits";
    EXPECT_THAT(offered({"windlass", "train", "max_"}), AllOf(Contains("max_steps="), Not(Contains("max_rows.yaml"))));
}

class FishCompletion : public Completion {
  protected:
    void SetUp() override {
        use("fish");
        if (is_missing()) GTEST_SKIP() << "there is no fish";
    }
    // The words that it offers at the end of a line, without their descriptions.
    Words offered(const std::string& line) {
        const std::string script = fmt::format("source {}; complete -C '{}'", sandbox_ / "fish", line);
        const Finished finished = run_shell({"--no-config", "-c", script});
        EXPECT_EQ(finished.code, 0) << describe(finished);
        EXPECT_EQ(finished.err, "");
        Words words;
        for (const std::string& each : lines_of(finished.out)) words.push_back(each.substr(0, each.find('\t')));
        return words;
    }
};

TEST_F(FishCompletion, OffersVerbsFlagsAndSettings) {
    EXPECT_THAT(offered("windlass pl"), ElementsAre("plan"));
    EXPECT_THAT(offered("windlass help insp"), ElementsAre("inspect"));
    EXPECT_THAT(offered("windlass help tro"), ElementsAre("troubleshooting"));
    EXPECT_THAT(offered("windlass data st"), ElementsAre("stats"));
    EXPECT_THAT(offered("windlass config sch"), ElementsAre("schema"));
    EXPECT_THAT(offered("windlass config from --js"), Contains("--json"));
    EXPECT_THAT(offered("windlass train --learning-r"), ElementsAre("--learning-rate"));
    EXPECT_THAT(offered("windlass generate --learning-r"), IsEmpty());
    EXPECT_THAT(offered("windlass train --policy thr"), ElementsAre("three_tier"));
    EXPECT_THAT(offered("windlass train --policy=thr"), ElementsAre("--policy=three_tier"));
    EXPECT_THAT(offered("windlass train policy=thr"), ElementsAre("policy=three_tier"));
    EXPECT_THAT(offered("windlass train --packing="), ElementsAre("--packing=false", "--packing=true"));
    EXPECT_THAT(offered("windlass runs plan --learning-r"), IsEmpty()) << "plan is a folder there";
}

class ZshCompletion : public Completion {
  protected:
    void SetUp() override {
        use("zsh");
        if (is_missing()) GTEST_SKIP() << "there is no zsh";
    }
    // The line after the tab key, typed into an interactive zsh.
    std::string completed(const std::string& line) {
        const std::string script = fmt::format(
            "zmodload zsh/zpty || exit 7\n"
            "zpty shell 'TERM=dumb {} -f -i'\n"
            "zpty -w shell 'PS1=; unsetopt zle_bracketed_paste prompt_sp; autoload -U compinit; compinit -u -D; "
            "source {}; bindkey \"^I\" complete-word; show() {{ print -r -- \"[$BUFFER]\" > {}; exit }}; "
            "zle -N show; bindkey \"^G\" show; print rea\"\"dy'\n"
            "zpty -r shell seen '*ready*'\n"
            "zpty -w -n shell '{}'$'\\t\\a'\n"
            "while zpty -r shell seen; do :; done\n",
            path_, sandbox_ / "zsh", sandbox_ / "line", line);
        std::filesystem::remove(sandbox_ / "line");
        const Finished finished = run_shell({"-f", "-c", script});
        EXPECT_TRUE(std::filesystem::exists(sandbox_ / "line")) << describe(finished);
        if (!std::filesystem::exists(sandbox_ / "line")) return "";
        std::string text = read_bytes(sandbox_ / "line");
        return text.substr(1, text.rfind(']') - 1);
    }
};

TEST_F(ZshCompletion, OffersVerbsFlagsAndSettings) {
    EXPECT_EQ(completed("windlass pl"), "windlass plan ");
    EXPECT_EQ(completed("windlass help insp"), "windlass help inspect ");
    EXPECT_EQ(completed("windlass help tro"), "windlass help troubleshooting ");
    EXPECT_EQ(completed("windlass data che"), "windlass data check ");
    EXPECT_EQ(completed("windlass config sch"), "windlass config schema ");
    EXPECT_EQ(completed("windlass train --learning-r"), "windlass train --learning-rate=");
    EXPECT_EQ(completed("windlass generate --learning-r"), "windlass generate --learning-r");
    EXPECT_EQ(completed("windlass train --policy thr"), "windlass train --policy three_tier ");
    EXPECT_EQ(completed("windlass train policy=thr"), "windlass train policy=three_tier ");
}

TEST(CompletionScript, IsInTheJsonToo) {
    const Sandbox sandbox;
    const Json json = json_of(sandbox.windlass({"completion", "zsh", "--json"}));
    EXPECT_EQ(json.value("shell", ""), "zsh");
    EXPECT_EQ(json.value("script", ""), must_succeed(sandbox.windlass({"completion", "zsh"})).out);
    EXPECT_THAT(json.value("script", ""), StartsWith("#compdef windlass\n"));
    EXPECT_EQ(run(sandbox.windlass({"completion", "tcsh"})).code, kUsage);
    EXPECT_EQ(run(sandbox.windlass({"completion"})).code, kUsage);
}

}  // namespace
}  // namespace windlass::cli
