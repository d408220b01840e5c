#include "config/config_readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "config/config_help.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

TEST(ConfigReaders, AreSaidOfEveryKey) {
    for (const ConfigKey& key : config_keys())
        EXPECT_NE(readers_of_key(key.name), 0u) << key.name;  // aborts, or names some
    EXPECT_EQ(readers_text(readers_of_key("machine")), "plan");
    EXPECT_EQ(readers_text(readers_of_key("learning_rate")), "plan, train");
    EXPECT_EQ(readers_text(readers_of_key("model")), "all");
    EXPECT_EQ(reader_of_verb("inspect"), 0u);
}

// Flags that a help text names.
std::set<std::string> flags_in(const std::string& help) {
    std::set<std::string> flags;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("  --")) flags.insert(line.substr(2, line.find(' ', 2) - 2));
    return flags;
}

TEST(ConfigHelp, OfAVerbHasTheKeysThatItReads) {
    for (const char* const verb : {"plan", "train", "eval", "generate", "chat", "data"}) {
        std::set<std::string> read;
        for (const ConfigKey& key : config_keys())
            if ((readers_of_key(key.name) & reader_of_verb(verb)) != 0) read.insert(config_flag(key.name));
        EXPECT_EQ(flags_in(whole_config_help(verb, 80)), read) << verb;
        const std::string brief = brief_config_help(verb, 80);
        for (const std::string& flag : flags_in(brief)) EXPECT_TRUE(read.contains(flag)) << verb << " " << flag;
        EXPECT_GE(flags_in(brief).size(), 5u) << brief;
        EXPECT_THAT(brief, testing::HasSubstr(std::to_string(read.size()) + " settings"));
    }
    EXPECT_EQ(brief_config_help("inspect", 80), "");
}

TEST(ConfigHelp, FollowsTheWidth) {
    for (const int columns : {72, 80, 100, 120})
        for (const std::string& help : {whole_config_help("train", columns), brief_config_help("train", columns)}) {
            std::istringstream lines(help);
            for (std::string line; std::getline(lines, line);)
                EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
        }
}

}  // namespace
}  // namespace windlass
