#include "config/preset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::HasSubstr;

ReadConfig read(const std::vector<std::string>& words) {
    return make_config(read_config_sources(real_files(), words), ConfigUse::plan);
}

std::string problem(const std::vector<std::string>& words) {
    try {
        read(words);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "no problem";
}

std::string write(const std::string& text, const std::string& name = "windlass_preset_test.json") {
    static const TempFolder folder;
    const std::string path = folder / name;
    std::ofstream(path) << text;
    return path;
}

// What is wrong with a preset of these keys, as a plan's configuration says it.
std::string problem_of_keys(const std::string& keys) {
    return problem({"model=m", "preset=" + write(R"({"name": "mine", "paper": "none", "keys": )" + keys + "}")});
}

TEST(Preset, ThoseThatComeAlongMakeAConfiguration) {
    ASSERT_FALSE(preset_texts().empty());
    for (const EmbeddedText& each : preset_texts()) {
        SCOPED_TRACE(each.name);
        const Preset preset = parse_preset(each.text, each.name);
        EXPECT_EQ(preset.name, each.name);
        EXPECT_FALSE(preset.keys.empty());
        EXPECT_EQ(read({"model=m", "ssd_dir=d", "--preset", preset.name}).config.preset, preset.name);
    }
}

TEST(Preset, FuyouIsAdamwOnThreeTiersUpdatedInBackward) {
    const Config config = read({"model=m", "ssd_dir=d", "preset=fuyou"}).config;
    EXPECT_EQ(config.method, "adamw");
    EXPECT_EQ(config.policy, "three_tier");
    EXPECT_EQ(config.update_time, "in_backward");
    EXPECT_TRUE(config.was_given("update_time"));
    EXPECT_THAT(problem({"model=m", "preset=fuyou"}), HasSubstr("three_tier keeps its state on disk"));
}

TEST(Preset, LiesBelowEverythingElse) {
    const std::string preset = write(R"({"name": "mine", "paper": "none", "keys":
        {"seed": 1, "max_length": 16, "lr": 1e-3, "weight_decay": 0.5, "packing": true, "report_to": ["none"],
         "save_steps": null, "dtype": "f32"}})");
    const std::string file = write("max_length: 17\n", "windlass_preset_test.yaml");
    setenv("WINDLASS_SEED", "2", 1);
    setenv("WINDLASS_PRESET", preset.c_str(), 1);
    const ReadConfig made = read({file, "model=m", "weight_decay=0.25", "--no-packing"});
    unsetenv("WINDLASS_SEED");
    unsetenv("WINDLASS_PRESET");
    EXPECT_EQ(made.config.seed, 2);
    EXPECT_EQ(made.config.max_length, 17);
    EXPECT_EQ(made.config.weight_decay, 0.25);
    EXPECT_FALSE(made.config.packing);
    EXPECT_EQ(made.config.learning_rate, 1e-3);
    EXPECT_EQ(made.config.dtype, "f32");
    EXPECT_EQ(made.config.save_steps, std::nullopt);
    EXPECT_THAT(made.config.report_to, testing::ElementsAre("none"));
    EXPECT_THAT(made.notes, testing::Contains(preset + ": lr is read as learning_rate"));
}

TEST(Preset, TheHighestLayerNamesIt) {
    const std::string file = write("preset: fuyou\n", "windlass_preset_test.yaml");
    const std::string other = write(R"({"name": "mine", "paper": "none", "keys": {"seed": 7}})");
    const Config config = read({file, "model=m", "preset=" + other}).config;
    EXPECT_EQ(config.seed, 7);
    EXPECT_EQ(config.policy, "auto");
    EXPECT_EQ(read({file, "model=m", "--preset", "null"}).config.policy, "auto");
}

TEST(Preset, RunYamlNamesItAndReadsBackAsTheSame) {
    const Config config = read({"model=m", "ssd_dir=d", "preset=fuyou", "update_time=next_forward"}).config;
    const std::string yaml = config_to_yaml(config);
    for (const char* line : {"\npreset: fuyou\n", "\npolicy: three_tier\n", "\nupdate_time: next_forward\n"})
        EXPECT_THAT(yaml, HasSubstr(line));
    EXPECT_EQ(config_to_yaml(read({write(yaml, "windlass_preset_test.yaml")}).config), yaml);
}

TEST(Preset, NamesTheFileAndTheNearestOfWhatItDoesNotKnow) {
    EXPECT_THAT(problem_of_keys(R"({"polcy": "auto"})"),
                HasSubstr("windlass_preset_test.json: there is no key \"polcy\". Did you mean \"policy\"?"));
    EXPECT_THAT(problem_of_keys(R"({"policy": "gpu"})"),
                HasSubstr("windlass_preset_test.json: policy: \"gpu\" is not one of"));
    EXPECT_THAT(problem_of_keys(R"({"seed": {"a": 1}})"),
                HasSubstr("windlass_preset_test.json: seed: expected a word"));
    EXPECT_THAT(problem_of_keys(R"({"preset": "fuyou"})"), HasSubstr("begins from no other one"));
    EXPECT_THAT(problem_of_keys("[]"), HasSubstr("a preset has keys"));
    EXPECT_THAT(problem({"model=m", "--preset", "fuyu"}), HasSubstr("no preset of that name. Try: fuyou"));
}

TEST(Preset, RefusesWhatIsNone) {
    const auto complaint = [](std::string_view text) {
        try {
            parse_preset(text, "mine.json");
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string("no complaint");
    };
    EXPECT_THAT(complaint("{"), HasSubstr("mine.json: not valid JSON"));
    EXPECT_THAT(complaint("[1]"), HasSubstr("a preset is a JSON object"));
    EXPECT_THAT(complaint(R"({"name": "a", "paper": "b", "key": {}})"),
                HasSubstr("mine.json: a preset has no \"key\". Try: keys"));
    EXPECT_THAT(complaint(R"({"paper": "b", "keys": {}})"), HasSubstr("a preset has a name"));
    EXPECT_THAT(complaint(R"({"name": "a", "paper": 1, "keys": {}})"), HasSubstr("a preset has a paper"));
    EXPECT_EQ(complaint(R"({"name": "a", "paper": "b", "keys": {}})"), "no complaint");
    const std::string large = write(std::string(kPresetBytesMax + 1, ' '));
    EXPECT_THROW(find_preset(real_files(), large), Error);
}

}  // namespace
}  // namespace windlass
