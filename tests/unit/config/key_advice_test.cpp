// Every hint is followed: what it names exists, and the program takes it.
#include "config/key_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/config_values.h"

namespace windlass {
namespace {

using testing::HasSubstr;

std::string refusal_of_words(std::vector<std::string> words) {
    words.insert(words.end(), {"model=m", "train_data=rows.jsonl", "output_dir=out"});
    try {
        make_config(read_config_sources(real_files(), words), ConfigUse::train);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

// Words with an underscore are keys here, and nothing else.
void expect_keys_in(std::string_view text, const std::string& of) {
    static const std::regex kWord("[a-z]+(_[a-z0-9]+)+");
    const std::string copy(text);
    for (std::sregex_iterator word(copy.begin(), copy.end(), kWord), end; word != end; ++word) {
        bool is_known = find_config_key(word->str()) != nullptr;
        for (const ConfigKey& key : config_keys())
            for (const std::string_view choice : key.choices) is_known |= choice == word->str();
        EXPECT_TRUE(is_known) << of << ": \"" << text << "\" names " << word->str();
    }
}

void expect_taken(std::string_view setting, const KeyAdvice& advice) {
    if (setting.empty()) return;
    const ConfigEntry nothing{.key = std::string(advice.key), .values = {""}, .where = "--x"};
    const std::string typed = typed_advice({.key = advice.key, .setting = setting}, nothing);
    std::vector<std::string> words;  // "--key value", the value in quotes where a shell needs them
    const size_t space = typed.find(' ');
    words.push_back(typed.substr(0, space));
    if (space != typed.npos) words.push_back(typed.substr(space + 1));
    if (words.size() == 2 && words[1].starts_with('\'')) words[1] = words[1].substr(1, words[1].size() - 2);
    const std::string key = words[0].substr(2);
    ASSERT_NE(find_config_key(key), nullptr) << advice.key << ": " << typed;
    const ConfigSources sources = read_config_sources(real_files(), words);
    ASSERT_EQ(sources.flags.size(), 1u) << typed;
    Config config;
    EXPECT_EQ(assign_config_value(*find_config_key(key), sources.flags[0], config), "") << advice.key << ": " << typed;
}

TEST(KeyAdvice, NamesWhatExistsAndIsTaken) {
    std::set<std::string_view> keys;
    for (const KeyAdvice& advice : key_advices()) {
        EXPECT_TRUE(keys.insert(advice.key).second) << advice.key << " twice";
        EXPECT_EQ(find_config_key(advice.key), nullptr) << advice.key;
        EXPECT_TRUE(advice.command.empty() || advice.setting.empty()) << advice.key;
        const bool says_something = !advice.setting.empty() || !advice.command.empty() || !advice.why.empty();
        EXPECT_TRUE(says_something) << advice.key;
        expect_taken(advice.setting, advice);
        expect_taken(advice.and_setting, advice);
        expect_keys_in(advice.why, std::string(advice.key));
    }
}

TEST(KeyAdvice, IsTypedAsTheMistakeWas) {
    EXPECT_THAT(refusal_of_words({"--gpu-memory", "20GiB"}),
                HasSubstr("--gpu-memory: there is no key \"gpu-memory\". Try: --device-memory 20GiB"));
    EXPECT_THAT(refusal_of_words({"vram=16GiB"}), HasSubstr("Try: device_memory: 16GiB"));
    EXPECT_THAT(refusal_of_words({"--vram", "20"}), HasSubstr("Try: --device-memory 20GiB"));
    EXPECT_THAT(refusal_of_words({"stage=dpo"}), HasSubstr("Try: objective: dpo"));
    EXPECT_THAT(refusal_of_words({"stage=orpo"}), HasSubstr("Try: objective: orpo"));
    EXPECT_THAT(refusal_of_words({"--gpus", "2"}), HasSubstr(": one device computes. Try: --device cuda"));
    EXPECT_THAT(refusal_of_words({"--nvme", "/disk/w"}), HasSubstr("Try: --ssd-dir /disk/w"));
    EXPECT_THAT(refusal_of_words({"--qlora"}), HasSubstr("Try: --adapter qlora"));
    EXPECT_THAT(refusal_of_words({"--loraplus-lr-ratio", "16"}),
                HasSubstr("Try: --param-groups '[\"*lora_B* learning_rate_scale=16\"]'"));
    EXPECT_THAT(refusal_of_words({"--push-to-hub"}), HasSubstr("Try: leave push-to-hub out"));
}

TEST(Sizes, WithoutAUnitAreAskedAbout) {
    EXPECT_THAT(refusal_of_words({"--ram", "8"}), HasSubstr("--ram: ram: 8 what? A size has a unit. Try: --ram 8GiB"));
    EXPECT_THAT(refusal_of_words({"ssd_space=100"}), HasSubstr("Try: ssd_space: 100GiB"));
    int sizes = 0;
    for (const ConfigKey& key : config_keys()) {
        if (!std::holds_alternative<ByteLimit Config::*>(key.field)) continue;
        ++sizes;
        EXPECT_THAT(refusal_of_words({config_flag(key.name), "8"}),
                    HasSubstr(fmt::format("Try: {} 8GiB", config_flag(key.name))));
    }
    EXPECT_GE(sizes, 8);
}

// A key that was misspelt, or set to what it does not take, is not said to be absent besides.
TEST(Absent, IsNotSaidOfAKeyThatWasMeant) {
    const auto refusal = [](const std::vector<std::string>& words) -> std::string {
        try {
            make_config(read_config_sources(real_files(), words), ConfigUse::train);
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal({"--modle", "m", "train_data=rows.jsonl", "output_dir=out"}),
              "configuration: --modle: there is no key \"modle\". Did you mean \"model\"?");
    EXPECT_THAT(refusal({"model_name=m", "train_data=rows.jsonl", "output_dir=out"}),
                testing::Not(HasSubstr("is not set")));
    EXPECT_THAT(refusal({"model=m", "train_dat=rows.jsonl", "output_di=out"}), testing::Not(HasSubstr("is not set")));
    EXPECT_THAT(refusal({"model=m"}), HasSubstr("train_data is not set"));
}

}  // namespace
}  // namespace windlass
