// Pages of man(1), and the schema of run.yaml, as the program prints them.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// Names of verbs, as help lists them.
std::vector<std::string> verbs_of(const Sandbox& sandbox) {
    const std::string help = must_succeed(sandbox.windlass({"--help"})).out;
    const std::string list = help.substr(help.find("\nVerbs:\n"));
    static const std::regex kVerb("\n  ([a-z]+) ");
    std::vector<std::string> verbs;
    for (std::sregex_iterator found(list.begin(), list.end(), kVerb), end; found != end; ++found)
        verbs.push_back((*found)[1]);
    EXPECT_GE(verbs.size(), 15u);
    return verbs;
}

// The page as man shows it, without a warning.
std::string shown_by_man(const Sandbox& sandbox, const std::string& page) {
    write_bytes(sandbox / "page.1", page);
    Command command;
    command.words = {"/usr/bin/man", "-l", "--warnings", "-P", "cat", sandbox / "page.1"};
    command.environment = {{"LC_ALL", "C.UTF-8"}, {"MANWIDTH", "80"}, {"HOME", sandbox.path()}};
    const Finished finished = must_succeed(command);
    EXPECT_EQ(finished.err, "") << page.substr(0, 200);
    return finished.out;
}

TEST(ManPages, AreShownWithoutAWarning) {
    if (!std::filesystem::exists("/usr/bin/man")) GTEST_SKIP() << "there is no man";
    const Sandbox sandbox;
    const std::string program = must_succeed(sandbox.windlass({"help", "--man"})).out;
    const std::string shown = shown_by_man(sandbox, program);
    if (shown.find("minimized") != shown.npos) GTEST_SKIP() << "man shows nothing on this machine";
    for (const std::string& verb : verbs_of(sandbox)) {
        const std::string page = must_succeed(sandbox.windlass({"help", "--man", verb})).out;
        EXPECT_EQ(must_succeed(sandbox.windlass({"help", verb, "--man"})).out, page);
        EXPECT_THAT(shown_by_man(sandbox, page), HasSubstr("windlass-" + verb)) << page;
        EXPECT_THAT(shown, HasSubstr("windlass-" + verb + "(1)"));
        EXPECT_THAT(shown, HasSubstr("\n       " + verb));
    }
    EXPECT_THAT(shown, HasSubstr("3 does not fit"));
}

TEST(ManPages, NameEveryFlagAndSettingOfAVerb) {
    const Sandbox sandbox;
    static const std::regex kFlag("\n  (?:-[a-z], )?(--[a-z0-9-]+)");
    for (const char* const verb : {"train", "generate", "export", "doctor"}) {
        const std::string help = must_succeed(sandbox.windlass({verb, "--help-all"})).out;
        const std::string page = must_succeed(sandbox.windlass({"help", "--man", verb})).out;
        int flags = 0;
        for (std::sregex_iterator found(help.begin(), help.end(), kFlag), end; found != end; ++found, ++flags)
            EXPECT_THAT(page, HasSubstr(std::regex_replace((*found)[1].str(), std::regex("-"), "\\-"))) << verb;
        EXPECT_GE(flags, 6) << help;
    }
}

TEST(ManPages, AreRefusedForWhatIsNoVerb) {
    const Sandbox sandbox;
    EXPECT_THAT(run(sandbox.windlass({"help", "--man", "trian"})).err, HasSubstr("Try: windlass train"));
    EXPECT_EQ(run(sandbox.windlass({"help", "--man", "plan", "train"})).code, kUsage);
    EXPECT_THAT(must_succeed(sandbox.windlass({"help", "plan"})).out, Not(HasSubstr(".SH")));
}

TEST(Schema, IsPrintedForEditors) {
    const Sandbox sandbox;
    const std::string text = must_succeed(sandbox.windlass({"config", "schema"})).out;
    const Json schema = parse_json(text, "schema", ExitCode::internal);
    EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
    const Json& properties = schema.at("properties");
    EXPECT_EQ(properties.at("max_length").at("minimum"), 2);
    EXPECT_EQ(properties.at("truncation").at("default"), "auto");
    for (const auto& [key, name] : {std::pair("preset", "lora"), {"task", "sst2"}, {"machine", "rtx4090-desktop"}})
        EXPECT_THAT(properties.at(key).at("examples"), testing::Contains(name));
    EXPECT_EQ(json_of(sandbox.windlass({"config", "schema", "--json"})).at("schema"), schema);
}

}  // namespace
}  // namespace windlass::cli
