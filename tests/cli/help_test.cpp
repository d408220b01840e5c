// What --help says, and on how much of a screen.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kVerbs = {"plan",     "train",  "status",     "runs",   "ui",     "eval",
                                         "generate", "chat",   "data",       "export", "replay", "inspect",
                                         "doctor",   "config", "completion", "version"};

std::vector<std::string> help_lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::string help_at(const Sandbox& sandbox, const std::vector<std::string>& words, const char* columns) {
    Command command = sandbox.windlass(words);
    command.environment["COLUMNS"] = columns;
    return must_succeed(command).out;
}

TEST(Help, ListsVerbsWithSentencesExamplesAndExitCodes) {
    const Sandbox sandbox;
    const std::string help = help_at(sandbox, {"--help"}, "80");
    for (const char* part : {"Examples:\n  windlass ", "3 does not fit", "\nUsage: windlass VERB"})
        EXPECT_THAT(help, HasSubstr(part));
    EXPECT_EQ(help_at(sandbox, {}, "80"), help);
    EXPECT_LE(help_lines(help).size(), 45u) << help;
    const std::string list = help.substr(help.find("\nVerbs:\n") + 8);
    std::vector<std::string> sentences;
    for (const std::string& line : help_lines(list)) {
        if (line.empty()) break;
        if (line.starts_with("            ") && !sentences.empty())
            sentences.back() += line;
        else
            sentences.push_back(line);
    }
    ASSERT_EQ(sentences.size(), kVerbs.size()) << list;
    for (size_t i = 0; i < sentences.size(); ++i) {
        EXPECT_THAT(sentences[i], testing::StartsWith("  " + kVerbs[i] + " "));
        EXPECT_THAT(sentences[i], testing::EndsWith(".")) << "is cut";
    }
}

TEST(Help, OfAVerbFitsAScreen) {
    const Sandbox sandbox;
    for (const std::string& verb : kVerbs) {
        const std::string help = help_at(sandbox, {verb, "--help"}, "80");
        SCOPED_TRACE(help);
        EXPECT_LE(help_lines(help).size(), 48u);
        for (const std::string& line : help_lines(help)) EXPECT_LE(line.size(), 80u) << line;
        EXPECT_THAT(help, HasSubstr("\nUsage: windlass " + verb + " "));
        EXPECT_EQ(help_at(sandbox, {verb, "-h"}, "80"), help);
        EXPECT_EQ(help_at(sandbox, {"help", verb}, "80"), help);
        EXPECT_THAT(help_lines(help)[0], testing::EndsWith("."));
        if (verb != "chat") {
            EXPECT_THAT(help, HasSubstr("--json"));
        }
    }
}

TEST(Help, NamesAFlagThatInnerVerbsShareOnce) {
    const std::string help = help_at(Sandbox(), {"config", "--help"}, "80");
    EXPECT_NE(help.find("--json"), std::string::npos);
    EXPECT_EQ(help.find("--json"), help.rfind("--json")) << help;
}

TEST(Help, FollowsTheWidthOfTheTerminal) {
    const Sandbox sandbox;
    for (const char* columns : {"80", "100"})
        for (const std::string& verb : kVerbs)
            for (const std::string& line : help_lines(help_at(sandbox, {verb, "--help-all"}, columns)))
                EXPECT_LE(line.size(), std::stoul(columns)) << line;
    EXPECT_LT(help_lines(help_at(sandbox, {"train", "--help-all"}, "100")).size(),
              help_lines(help_at(sandbox, {"train", "--help-all"}, "80")).size());
}

TEST(Help, NamesTheSettingsThatAVerbReads) {
    const Sandbox sandbox;
    const std::string train = help_at(sandbox, {"train", "--help-all"}, "80");
    for (const char* part : {"--learning-rate", "--gradient-accumulation-steps", "tokens", "three_tier"})
        EXPECT_THAT(train, HasSubstr(part));
    const std::string generate = help_at(sandbox, {"generate", "--help-all"}, "80");
    EXPECT_THAT(generate, HasSubstr("--ssd-dir"));
    EXPECT_THAT(generate, Not(HasSubstr("--learning-rate")));
    EXPECT_THAT(generate, Not(HasSubstr("--lsp-d")));
    for (const char* verb : {"plan", "train", "eval", "generate", "chat", "data"}) {
        const std::string help = help_at(sandbox, {verb, "--help"}, "80");
        EXPECT_THAT(help, HasSubstr("key=value")) << verb;
        EXPECT_THAT(help, HasSubstr("[run.yaml]")) << verb;
        EXPECT_THAT(help, HasSubstr(fmt::format("windlass {} --help-all", verb))) << verb;
    }
    const std::string all = help_at(sandbox, {"--help-all"}, "100");
    EXPECT_THAT(all, HasSubstr("Read by: plan, train"));
}

}  // namespace
}  // namespace windlass::cli
