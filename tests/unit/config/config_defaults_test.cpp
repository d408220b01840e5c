// Defaults that depend on another key: the same run however that key is said.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "config/config.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using Words = std::vector<std::string>;

// As the program finds folders: "lora" and "lsp" in these names are kinds of adapters.
void place_by_name(Config& config) {
    const auto kind_in = [](const std::string& name) { return name.find("lsp") != name.npos ? "lsp" : "lora"; };
    if (config.model.starts_with("runs/")) {
        config.adapter = config.model;
        config.model = "base";
    }
    if (config.adapter.starts_with("runs/")) config.adapter_kind = kind_in(config.adapter);
}

class ConfigDefaults : public testing::Test {
  protected:
    static std::string yaml_of(Words words) {
        for (const char* const word : {"train_data=rows.jsonl", "output_dir=out"}) words.emplace_back(word);
        return config_to_yaml(
            make_config(read_config_sources(real_files(), words), ConfigUse::train, place_by_name).config);
    }
    std::string file(const std::string& name, const std::string& text) {
        const std::string path = folder_ / name;
        std::ofstream(path) << text;
        return path;
    }
    TempFolder folder_;
};

TEST_F(ConfigDefaults, AreTheSameHoweverTheOtherKeyIsSaid) {
    const std::vector<std::pair<Words, Words>> same = {
        {{"model=runs/lora"}, {"model=base", "adapter=runs/lora"}},
        {{"model=runs/lsp"}, {"model=base", "--adapter", "runs/lsp"}},
        {{"model=runs/lora", "method=lomo"}, {"model=base", "adapter=runs/lora", "method=lomo"}},
        {{"model=runs/lora", "adapter=none"}, {"model=base", "adapter=runs/lora"}},
        {{"model=base", "adapter=qlora"}, {"model=base", "adapter=lora", "load_in_4bit=true"}},
        {{"model=base", "adapter=qlora"}, {"model=base", "adapter=lora", "weight_storage=nf4"}},
        {{"model=runs/lora", "load_in_4bit=true"}, {"model=base", "adapter=runs/lora", "weight_storage=nf4"}},
        {{"model=base", "adapter=none"}, {"model=base"}},
        {{"model=base", "adapter=full", "method=lomo"}, {"model=base", "method=lomo"}},
        {{"model=base", "method=adalomo"}, {"model=base", "method=adalomo", "learning_rate=5e-4", "max_grad_norm=0"}},
        {{"model=base", "task=sst2", "objective=loss"},
         {"model=base", "task=sst2", "add_eos=false", "truncation=left"}},
        {{"model=base", "train_on_prompt=true"}, {"model=base", "train_on_prompt=true", "train_turns=all"}},
        {{"model=base", "lora_r=4", "adapter=lora"}, {file("a.yaml", "adapter: lora\nlora_r: 4\nmodel: base\n")}},
        {{file("b.yaml", "method: lomo\nmodel: base\n")}, {"--method", "lomo", "--model", "base"}},
        {{file("c.yaml", "method: adamw\nmodel: base\n"), "method=lomo"}, {"model=base", "method=lomo"}}};
    for (const auto& [one, other] : same)
        EXPECT_EQ(yaml_of(one), yaml_of(other)) << one[0] << " " << one.back() << " and " << other.back();
}

TEST_F(ConfigDefaults, AreTheSameFromTheEnvironmentAndFromAPreset) {
    const std::string keys = R"("method": "lomo", "task": "sst2")";
    const std::string preset =
        file("p.json", R"({"name": "p", "paper": "none", "keys": {)" + keys + R"(, "model": "base"}})");
    const std::string by_words = yaml_of({"model=base", "method=lomo", "task=sst2"});
    std::string by_preset = yaml_of({"preset=" + preset});
    if (const size_t at = by_preset.find(preset); at != by_preset.npos) by_preset.replace(at, preset.size(), "null");
    EXPECT_EQ(by_preset, by_words);
    ::setenv("WINDLASS_METHOD", "lomo", 1);
    ::setenv("WINDLASS_TASK", "sst2", 1);
    const std::string by_environment = yaml_of({"model=base"});
    ::unsetenv("WINDLASS_METHOD");
    ::unsetenv("WINDLASS_TASK");
    EXPECT_EQ(by_environment, by_words);
}

// A run's own file holds them, and reads back as it was written.
TEST_F(ConfigDefaults, OfARunsOwnFileReadBack) {
    const std::vector<Words> tried = {{"model=runs/lora"},
                                      {"model=runs/lsp"},
                                      {"model=base", "adapter=qlora"},
                                      {"model=base", "task=sst2"},
                                      {"model=base", "method=lomo"},
                                      {"model=base", "train_on_prompt=true"}};
    for (const Words& words : tried) {
        const std::string written = yaml_of(words);
        const std::string path = file("run.yaml", written);
        EXPECT_EQ(config_to_yaml(make_config(read_config_sources(real_files(), Words{path}), ConfigUse::train).config),
                  written)
            << words.back();
    }
}

TEST_F(ConfigDefaults, OfAnotherMethodAreThoseThatItHas) {
    const Words words = {"model=base", "adapter=lora", "method=lomo", "train_data=r.jsonl", "output_dir=o"};
    const Config lomo = make_config(read_config_sources(real_files(), words), ConfigUse::train).config;
    EXPECT_EQ(lomo.learning_rate, 0.03);
    EXPECT_EQ(with_method(lomo, "adamw").learning_rate, 2e-4);
    EXPECT_EQ(with_method(lomo, "adamw").max_grad_norm, 1);
}

// What is wrong with the keys is said before what is wrong with the model's place.
TEST_F(ConfigDefaults, ProblemsComeBeforeTheModelsPlace) {
    const Words words = {"model=base", "lr_power=3", "train_data=r.jsonl", "output_dir=o"};
    const auto nowhere = [](Config&) { throw UserError(ExitCode::model, "base", "no such folder"); };
    try {
        make_config(read_config_sources(real_files(), words), ConfigUse::train, nowhere);
        ADD_FAILURE();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
    }
    EXPECT_THROW(make_config(read_config_sources(real_files(), Words{"model=base", words[2], words[3]}),
                             ConfigUse::train, nowhere),
                 UserError);
}

}  // namespace
}  // namespace windlass
