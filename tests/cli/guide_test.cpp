// The guide inside the program: windlass help TOPIC.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "base/shell_word.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::map<std::string, std::string> pages_of_guide() {
    std::map<std::string, std::string> pages;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/docs/guide"))
        if (entry.path().extension() == ".md") pages[entry.path().stem()] = read_bytes(entry.path());
    EXPECT_GE(pages.size(), 25u);
    return pages;
}

std::string page_at(const Sandbox& sandbox, const std::string& topic, const char* columns) {
    Command command = sandbox.windlass({"help", topic});
    command.environment["COLUMNS"] = columns;
    return must_succeed(command).out;
}

TEST(Topics, AreThePagesOfTheGuideEachWithASentence) {
    const Sandbox sandbox;
    const Json list = json_of(sandbox.windlass({"help", "topics", "--json"}));
    EXPECT_EQ(list.at("topic"), "topics");
    std::vector<std::string> names;
    for (const Json& topic : list.at("topics")) {
        names.push_back(topic.at("name"));
        const std::string sentence = topic.at("sentence");
        EXPECT_THAT(sentence, testing::EndsWith(".")) << names.back();
        EXPECT_LE(sentence.size(), 200u) << names.back() << ": " << sentence;
        EXPECT_THAT(sentence, Not(testing::ContainsRegex("[`[]"))) << names.back();
    }
    std::vector<std::string> expected;
    for (const auto& [name, page] : pages_of_guide()) expected.push_back(name);
    EXPECT_EQ(names, expected);
    const std::string text = must_succeed(sandbox.windlass({"help", "topics"})).out;
    EXPECT_EQ(list.at("text"), text);
    for (const std::string& name : names) EXPECT_THAT(text, HasSubstr("\n  " + name));
    EXPECT_THAT(must_succeed(sandbox.windlass({"help"})).out, HasSubstr("windlass help topics"));
}

// Every heading and every line of code of the pages.
TEST(Topics, AreWholePagesAsPlainText) {
    const Sandbox sandbox;
    static const std::regex kHeading("(?:^|\n)#+ ([^`*\\[\n]+)(?=\n)"), kAnyCode("\n```[a-z]*\n[^]*?\n```\n");
    for (const auto& [name, page] : pages_of_guide()) {
        const std::string text = page_at(sandbox, name + ".md", "80");
        const std::string prose = std::regex_replace(page, kAnyCode, "\n");
        for (std::sregex_iterator found(prose.begin(), prose.end(), kHeading), end; found != end; ++found)
            EXPECT_NE(text.find((*found)[1].str() + "\n"), text.npos) << name << ": " << (*found)[1];
        for (const char* const mark : {"\x1b", "](", "```"})
            EXPECT_EQ(text.find(mark), text.npos) << name << ": " << mark;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            const bool is_code = line.starts_with("    "), has_path = line.find("://") != line.npos;
            if (is_code || has_path) continue;
            EXPECT_LE(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }), 80) << name;
        }
    }
}

TEST(Topics, FollowTheWidthOfTheTerminal) {
    const Sandbox sandbox;
    EXPECT_GT(page_at(sandbox, "limits", "60").size(), 1000u);
    EXPECT_NE(page_at(sandbox, "limits", "60"), page_at(sandbox, "limits", "100"));
    EXPECT_EQ(page_at(sandbox, "limits", "100"), page_at(sandbox, "limits", "400"));
}

TEST(Topics, NameOtherTopicsThatThePageLinks) {
    EXPECT_THAT(must_succeed(Sandbox().windlass({"help", "gguf"})).out, testing::ContainsRegex("\nSee also: .*after"));
}

TEST(Topics, GiveWayToAVerbOfTheSameName) {
    const Sandbox sandbox;
    for (const std::string name : {"config", "data"}) {
        const std::string help = must_succeed(sandbox.windlass({"help", name})).out;
        EXPECT_EQ(help, must_succeed(sandbox.windlass({name, "--help"})).out);
        EXPECT_THAT(help, HasSubstr("windlass help " + name + ".md\n"));
        EXPECT_THAT(must_succeed(sandbox.windlass({"help", name + ".md"})).out,
                    testing::ContainsRegex("^[A-Z][a-z]+\n==="));
    }
    EXPECT_THAT(must_succeed(sandbox.windlass({"help", "plan"})).out, Not(HasSubstr("plan.md")));
}

TEST(Topics, AreNamedWhereANameIsWrong) {
    const Sandbox sandbox;
    const Finished near = run(sandbox.windlass({"help", "trubleshooting"}));
    EXPECT_EQ(near.code, kUsage);
    EXPECT_THAT(near.err, HasSubstr("no such verb or topic. Try: windlass help troubleshooting"));
    EXPECT_THAT(run(sandbox.windlass({"help", "trian"})).err, HasSubstr("Try: windlass help train"));
    EXPECT_THAT(run(sandbox.windlass({"help", "xylophone"})).err, HasSubstr("Try: windlass help topics"));
    EXPECT_THAT(run(sandbox.windlass({"help", "merge"})).err, HasSubstr("Try: windlass export"));
    EXPECT_EQ(run(sandbox.windlass({"help", "gpu", "json"})).code, kUsage);
    EXPECT_THAT(run(sandbox.windlass({"help", "gpu", "--wide"})).err, HasSubstr("no such flag"));
    EXPECT_THAT(run(sandbox.windlass({"gpus"})).err, Not(HasSubstr("topic"))) << "a verb is missing, not a topic";
}

TEST(Topics, AreJsonForPrograms) {
    const Sandbox sandbox;
    const Json page = json_of(sandbox.windlass({"help", "gpu", "--json"}));
    EXPECT_EQ(page.at("topic"), "gpu");
    EXPECT_EQ(page.at("text"), page_at(sandbox, "gpu", "80"));
    const Json verb = json_of(sandbox.windlass({"help", "plan", "--json"}));
    EXPECT_THAT(verb.at("text").get<std::string>(), HasSubstr("Usage: windlass plan"));
    EXPECT_EQ(json_of(sandbox.windlass({"help", "--json"})).at("topic"), "");
}

TEST(Topics, AreInManPagesAndCompletion) {
    const Sandbox sandbox;
    const auto prints = [&](const std::vector<std::string>& words, const char* text) {
        return must_succeed(sandbox.windlass(words)).out.find(text) != std::string::npos;
    };
    EXPECT_TRUE(prints({"help", "--man"}, "\n\\fBtroubleshooting\\fP\n"));
    for (const char* const shell : {"bash", "zsh", "fish"})
        EXPECT_TRUE(prints({"completion", shell}, " troubleshooting ")) << shell;
}

// The shell commands of the page for agents, in order, on the chats of the example.
TEST(AgentsPage, HasCommandsThatRun) {
    const Sandbox sandbox;
    const std::string page = read_bytes(source_dir() + "/docs/guide/agents.md"), examples = source_dir() + "/examples/";
    std::string script = fmt::format("cd {}\n", shell_word(sandbox.path()));
    int commands = 0;
    static const std::regex kBlock("\n```sh\n([^]*?)```\n");
    for (std::sregex_iterator found(page.begin(), page.end(), kBlock), end; found != end; ++found, ++commands)
        script += (*found)[1];
    EXPECT_EQ(commands, 4);
    EXPECT_LE(std::ranges::count(page, '\n'), 80);
    const std::string rows = read_bytes(examples + "chat/chats.jsonl");
    write_bytes(sandbox / "rows.jsonl", rows);
    write_bytes(sandbox / "held-out.jsonl", rows);
    write_bytes(sandbox / "run.yaml", fmt::format("model: {}quickstart/model\nchat_template: {}chat/template.jinja\n"
                                                  "train_data: [rows.jsonl]\noutput_dir: runs/mine\nmax_steps: 2\n"
                                                  "max_length: 128\n",
                                                  examples, examples));
    Command command = sandbox.windlass({});
    const std::string folder = std::filesystem::path(command.words[0]).parent_path();
    command.environment["PATH"] = folder + ":/usr/bin:/bin";
    command.words = {"/bin/sh", "-eu", "-c", script};
    must_succeed(command);
    if (HasFailure()) return;
    EXPECT_THAT(read_bytes(sandbox / "events.jsonl"), testing::ContainsRegex("\"event\":\"done\".*\"steps\":2,"));
    EXPECT_TRUE(std::filesystem::exists(sandbox / "models/mine/config.json"));
    EXPECT_THAT(read_bytes(sandbox / "mine.gguf"), testing::StartsWith("GGUF"));
}

}  // namespace
}  // namespace windlass::cli
