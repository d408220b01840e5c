// The schema accepts the configurations that the program reads, and refuses what it refuses.
#include "config/config_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "config/config_keys.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

Json schema() {
    return config_schema([](std::string_view key) {
        return key == "preset" ? std::vector<std::string>{"lora"} : std::vector<std::string>();
    });
}

// As YAML 1.2 reads a scalar without quotes.
Json yaml_scalar(const std::string& text) {
    if (text == "null" || text.empty()) return Json();
    if (text == "true" || text == "false") return text == "true";
    const char* const end = text.data() + text.size();
    int64_t whole = 0;
    if (std::from_chars(text.data(), end, whole).ptr == end) return whole;
    double number = 0;
    if (std::from_chars(text.data(), end, number).ptr == end) return number;
    return text;
}

bool has_type(const Json& value, const std::string& type) {
    if (type == "integer")
        return value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value);
    if (type == "number") return value.is_number();
    const std::string own = value.type_name();
    return own == type;
}

// The words of JSON Schema that the schema has; another one fails the test.
bool accepts(const Json& root, const Json& rule, const Json& value);

bool accepts_word(const Json& root, const std::string& word, const Json& rule, const Json& value) {
    const auto takes = [&](const Json& each) { return accepts(root, each, value); };
    const auto takes_member = [&](const Json& each) { return accepts(root, rule, each); };
    if (word == "$ref") return takes(root.at(Json::json_pointer(rule.get<std::string>().substr(1))));
    if (word == "anyOf") return std::any_of(rule.begin(), rule.end(), takes);
    if (word == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (word == "items") return !value.is_array() || std::all_of(value.begin(), value.end(), takes_member);
    if (word == "minItems") return !value.is_array() || value.size() >= rule.get<size_t>();
    if (word == "additionalProperties")
        return !value.is_object() || std::all_of(value.begin(), value.end(), takes_member);
    if (word == "minimum") return !value.is_number() || value.get<double>() >= rule.get<double>();
    if (word == "maximum") return !value.is_number() || value.get<double>() <= rule.get<double>();
    if (word == "pattern")
        return !value.is_string() ||
               std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>(), std::regex::ECMAScript));
    if (word == "type" && rule.is_array())
        return std::any_of(rule.begin(), rule.end(), [&](const Json& type) { return has_type(value, type); });
    if (word == "type") return has_type(value, rule);
    static const std::set<std::string> kRemarks = {"description", "default", "examples", "format",
                                                   "group",       "aliases", "verbs"};
    EXPECT_TRUE(kRemarks.contains(word)) << word;
    return true;
}

bool accepts(const Json& root, const Json& rule, const Json& value) {
    for (const auto& [word, words_rule] : rule.items())
        if (!accepts_word(root, word, words_rule, value)) return false;
    return true;
}

// Of a value as YAML has it.
bool accepts_key(const Json& root, const std::string& key, const Json& value) {
    const Json& properties = root.at("properties");
    return properties.contains(key) && accepts(root, properties.at(key), value);
}

Json value_of(const ConfigEntry& entry) {
    if (!entry.is_list) return entry.is_null ? Json() : yaml_scalar(entry.values.at(0));
    Json list = Json::array();
    for (const std::string& each : entry.values) list.push_back(yaml_scalar(each));
    return list;
}

std::vector<std::string> refused_in(const std::string& path) {
    const Json root = schema();
    std::vector<std::string> refused;
    for (const ConfigEntry& entry : read_config_file(real_files(), path))
        if (!accepts_key(root, entry.key, value_of(entry))) refused.push_back(entry.key);
    return refused;
}

TEST(ConfigSchema, HasEveryKeyAndAliasAndNoOther) {
    const Json properties = schema().at("properties");
    size_t names = 0;
    for (const ConfigKey& key : config_keys()) {
        ASSERT_TRUE(properties.contains(std::string(key.name))) << key.name;
        const Json& property = properties.at(std::string(key.name));
        EXPECT_THAT(property.value("description", ""), testing::HasSubstr(std::string(key.help)));
        EXPECT_FALSE(property.at("verbs").empty()) << key.name;
        EXPECT_EQ(property.value("aliases", Json::array()), Json(key.aliases)) << key.name;
        for (const std::string_view alias : key.aliases)
            EXPECT_EQ(properties.at(std::string(alias)).at("$ref"), fmt::format("#/properties/{}", key.name));
        names += 1 + key.aliases.size();
    }
    EXPECT_EQ(properties.size(), names);
    EXPECT_EQ(schema().at("additionalProperties"), false);
    EXPECT_EQ(properties.at("preset").at("examples"), Json::array({"lora"}));
    EXPECT_FALSE(properties.at("model").contains("examples"));
}

TEST(ConfigSchema, AcceptsTheFilesOfTheExamples) {
    int files = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(source_dir() + "/examples")) {
        if (each.path().extension() != ".yaml") continue;
        EXPECT_THAT(refused_in(each.path()), testing::IsEmpty()) << each.path();
        ++files;
    }
    EXPECT_GE(files, 3);
}

TEST(ConfigSchema, AcceptsTheDefaultsThatItNames) {
    const Json root = schema();
    for (const ConfigKey& key : config_keys()) {
        const Json& property = root.at("properties").at(std::string(key.name));
        EXPECT_TRUE(accepts(root, property, property.at("default"))) << property.dump(2);
    }
}

TEST(ConfigSchema, AcceptsTheFileOfARun) {
    const TempFolder folder;
    std::ofstream(folder / "run.yaml") << config_to_yaml(Config());
    EXPECT_THAT(refused_in(folder / "run.yaml"), testing::IsEmpty());
}

struct Line {
    std::string key, text;  // of a value; "[a, b]" is a list
};

// As the program reads it: the key's own rule, before what contradicts other keys.
bool is_read(const Line& line) {
    const TempFolder folder;
    std::ofstream(folder / "a.yaml") << line.key << ": " << line.text << "\n";
    const std::vector<std::string> words = {folder / "a.yaml"};
    try {
        make_config(read_config_sources(real_files(), words), ConfigUse::generate);
    } catch (const UserError& error) {
        return std::string_view(error.what()).find("a.yaml:1: ") == std::string_view::npos;
    }
    return true;
}

TEST(ConfigSchema, AgreesWithTheProgramOnValues) {
    const Json root = schema();
    const std::vector<Line> good = {{"method", "lomo"},
                                    {"max_length", "64"},
                                    {"cutoff_len", "64"},
                                    {"learning_rate", "1e-5"},
                                    {"lr", "0.001"},
                                    {"max_steps", "null"},
                                    {"directions", "auto"},
                                    {"directions", "4"},
                                    {"ram", "8GiB"},
                                    {"ram", "80%"},
                                    {"ram", "1.5 TB"},
                                    {"ram", "2000000000"},
                                    {"ram", "null"},
                                    {"packing", "true"},
                                    {"gradient_checkpointing", "true"},
                                    {"gradient_checkpointing", "auto"},
                                    {"train_data", "a.jsonl"},
                                    {"report_to", "none"},
                                    {"task", "null"}};
    const std::vector<Line> bad = {{"method", "sgd"},
                                   {"max_length", "1"},
                                   {"max_length", "a"},
                                   {"max_length", "1.5"},
                                   {"cutoff_len", "1"},
                                   {"learning_rate", "fast"},
                                   {"learning_rate", "-1"},
                                   {"seed", "null"},
                                   {"packing", "null"},
                                   {"packing", "maybe"},
                                   {"ram", "8"},
                                   {"ram", "8 gigabytes"},
                                   {"directions", "many"},
                                   {"gradient_checkpointing", "null"},
                                   {"report_to", "carbon"},
                                   {"learnin_rate", "1"},
                                   {"max_steps", "0"},
                                   {"method", "null"}};
    for (const Line& line : good) {
        EXPECT_TRUE(accepts_key(root, line.key, yaml_scalar(line.text))) << line.key << ": " << line.text;
        EXPECT_TRUE(is_read(line)) << line.key << ": " << line.text;
    }
    for (const Line& line : bad) {
        EXPECT_FALSE(accepts_key(root, line.key, yaml_scalar(line.text))) << line.key << ": " << line.text;
        EXPECT_FALSE(is_read(line)) << line.key << ": " << line.text;
    }
}

TEST(ConfigSchema, KnowsListsAndPairs) {
    const Json root = schema();
    EXPECT_TRUE(accepts_key(root, "train_data", Json::array({"a.jsonl", "b.jsonl"})));
    EXPECT_FALSE(accepts_key(root, "train_data", {{"path", "a.jsonl"}}));
    EXPECT_TRUE(accepts_key(root, "report_to", Json::array({"jsonl", "tensorboard"})));
    EXPECT_FALSE(accepts_key(root, "report_to", Json::array({"jsonl", "carbon"})));
    EXPECT_TRUE(accepts_key(root, "rank_pattern", {{"q_proj", 8}}));
    EXPECT_FALSE(accepts_key(root, "rank_pattern", {{"q_proj", Json::array({8})}}));
    EXPECT_TRUE(accepts_key(root, "trainable_token_indices", {{"lm_head", Json::array({5, 7})}}));
    EXPECT_FALSE(accepts_key(root, "model", Json::array({"a", "b"})));
    const Json group = {{"match", "*norm*"}, {"weight_decay", 0}};
    EXPECT_TRUE(accepts_key(root, "param_groups", Json::array({group})));
    EXPECT_FALSE(accepts_key(root, "freeze", Json::array({group})));
}

}  // namespace
}  // namespace windlass
