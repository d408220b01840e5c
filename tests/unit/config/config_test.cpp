#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/key_advice.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConfigTest : public testing::Test {
  protected:
    TempFolder folder_;  // a name in a file is taken from the file's folder too
    std::string write(const std::string& text) {
        const std::string path = folder_ / "windlass_config_test.yaml";
        std::ofstream(path) << text;
        return path;
    }
    ReadConfig read(std::vector<std::string> words, ConfigUse use = ConfigUse::train) {
        return make_config(read_config_sources(real_files(), words), use);
    }
    // The message of the UserError(usage) that these words make.
    std::string problem(std::vector<std::string> words, ConfigUse use = ConfigUse::train) {
        try {
            read(std::move(words), use);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        return "";
    }
    const std::vector<std::string> needed = {"model=m", "train_data=rows.jsonl", "output_dir=out"};
    std::vector<std::string> with(std::vector<std::string> words) {
        words.insert(words.end(), needed.begin(), needed.end());
        return words;
    }
};

TEST_F(ConfigTest, FlagWinsOverOverrideOverFileOverEnvironment) {
    const std::string file = write("seed: 2\nmax_length: 64\nwarmup_steps: 5\nmodel: from-file\n");
    setenv("WINDLASS_SEED", "1", 1);
    setenv("WINDLASS_WEIGHT_DECAY", "0.5", 1);
    const Config config = read({file, "seed=3", "max_length=128", "--seed", "4", "--train-data", "a.jsonl",
                                "--train_data", "b.jsonl", "output_dir=o"})
                              .config;
    unsetenv("WINDLASS_SEED");
    unsetenv("WINDLASS_WEIGHT_DECAY");
    EXPECT_EQ(config.seed, 4);
    EXPECT_EQ(config.max_length, 128);
    EXPECT_EQ(config.warmup_steps, 5);
    EXPECT_EQ(config.weight_decay, 0.5);
    EXPECT_EQ(config.model, "from-file");
    EXPECT_THAT(config.train_data, ElementsAre("a.jsonl", "b.jsonl"));
    EXPECT_TRUE(config.was_given("seed"));
    EXPECT_FALSE(config.was_given("ram"));
}

TEST_F(ConfigTest, AVariableThatSetsNoKeyIsReportedWithTheNearest) {
    const std::map<std::string, std::string> variables = {
        {"WINDLASS_LEARNIN_RATE", "WINDLASS_LEARNING_RATE"}, {"WINDLASS_MAXSTEPS", "WINDLASS_MAX_STEPS"},
        {"WINDLASS_VRAM", "WINDLASS_DEVICE_MEMORY"},         {"WINDLASS_seed", "WINDLASS_SEED"},
        {"WINDLASS_OUTPUT-DIR", "WINDLASS_OUTPUT_DIR"},      {"WINDLASS_ZZZZZZZZZZZZ", ""}};
    for (const auto& [name, near] : variables) {
        setenv(name.c_str(), "1", 1);
        const ConfigSources sources = read_config_sources(real_files(), with({}));
        unsetenv(name.c_str());
        EXPECT_THAT(sources.warnings, ElementsAre(fmt::format("{}: the variable sets no key, and is ignored{}", name,
                                                              near.empty() ? "" : ". Try: " + near)));
        EXPECT_TRUE(sources.environment.empty());
    }
    setenv("WINDLASS_CPU", "avx2", 0);
    EXPECT_TRUE(read_config_sources(real_files(), with({})).warnings.empty());
}

TEST_F(ConfigTest, AVariableTakesAnotherNameOfItsKey) {
    setenv("WINDLASS_LR", "1e-3", 1);
    const ReadConfig found = read(with({}));
    unsetenv("WINDLASS_LR");
    EXPECT_EQ(found.config.learning_rate, 1e-3);
    EXPECT_THAT(found.notes, ElementsAre("WINDLASS_LR: lr is read as learning_rate"));
}

TEST_F(ConfigTest, AFlagWithoutAValueSaysHowItTakesOne) {
    const std::map<std::vector<std::string>, std::string> tries = {
        {{"--resume", "5"}, "--resume=5"},
        {{"--resume", "runs/a/checkpoint-12/"}, "--resume=12"},
        {{"--resume", "auto"}, "--resume"},
        {{"--resume", "True"}, "--resume"},
        {{"--resume", "false"}, "leave --resume out"},
        {{"--overwrite", "1"}, "--overwrite"},
        {{"--overwrite", "Yes"}, "--overwrite"},
        {{"--overwrite", "no"}, "--overwrite=false"},
        {{"--load-best-model-at-end", "True"}, "--load-best-model-at-end"}};
    for (const auto& [words, meant] : tries) {
        for (const char* const file : {"", "a.yaml"}) {
            std::vector<std::string> all = words;
            if (*file != '\0') all.insert(all.begin(), write("seed: 1"));
            EXPECT_THAT(problem(with(all)), testing::EndsWith(". Try: " + meant)) << words[0] << " " << words[1];
        }
    }
    EXPECT_TRUE(read(with({"--overwrite", "true"})).config.overwrite);
    EXPECT_EQ(read(with({"--resume=5"})).config.resume, "5");
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
    const Config config = read({write("model: m\noutput_dir: 'runs/ a'\ntrain_data: [x.jsonl, \"y z.jsonl\"]\n"
                                      "learning_rate: 1.0e-5\nper_device_train_batch_size: auto\nsave_steps: null\n"
                                      "gradient_checkpointing: True\npacking: yes\nram: 4GiB\nmax_steps: 7\n")})
                              .config;
    EXPECT_EQ(config.output_dir, "runs/ a");
    EXPECT_THAT(config.train_data, ElementsAre("x.jsonl", "y z.jsonl"));
    EXPECT_EQ(config.learning_rate, 1e-5);
    EXPECT_EQ(config.per_device_train_batch_size, std::nullopt);
    EXPECT_EQ(config.save_steps, std::nullopt);
    EXPECT_EQ(config.gradient_checkpointing, "true");
    EXPECT_TRUE(config.packing);
    EXPECT_EQ(config.ram.text, "4GiB");
    EXPECT_EQ(config.max_steps, 7);
}

TEST_F(ConfigTest, FlagsOfBooleansNeedNoValue) {
    EXPECT_TRUE(read(with({"--packing"})).config.packing);
    EXPECT_TRUE(read(with({"--packing", "true"})).config.packing);
    EXPECT_FALSE(read(with({"--no-add-eos"})).config.add_eos);
    EXPECT_FALSE(read(with({"--add-eos=false"})).config.add_eos);
    EXPECT_EQ(read(with({"--resume"})).config.resume, "auto");
    EXPECT_EQ(read(with({"--resume=20"})).config.resume, "20");
}

TEST_F(ConfigTest, AliasesAreReadWithANote) {
    const ReadConfig read_config =
        read({"base_model=m", "--lr", "1e-3", "dataset=[a.jsonl]", "output_dir=o", "cutoff_len=8"});
    EXPECT_EQ(read_config.config.learning_rate, 1e-3);
    EXPECT_EQ(read_config.config.max_length, 8);
    EXPECT_THAT(read_config.notes, testing::Contains("--lr: lr is read as learning_rate"));
}

TEST_F(ConfigTest, UnknownKeysNameTheLineAndTheNearestKey) {
    const std::string file = write("model: m\nlearnign_rate: 1\n");
    EXPECT_THAT(
        problem({file}, ConfigUse::plan),
        HasSubstr("windlass_config_test.yaml:2: there is no key \"learnign_rate\". Did you mean \"learning_rate\"?"));
    EXPECT_THAT(problem(with({"--max-stpes", "3"})),
                HasSubstr("--max-stpes: there is no key \"max-stpes\". Did you mean \"max_steps\"?"));
    EXPECT_THAT(problem(with({"fp16=true"})), HasSubstr("Try: dtype: bf16"));
    EXPECT_THAT(problem(with({"qqqqqqqqqqqqqq=1"})), testing::Not(HasSubstr("Did you mean")));
}

TEST_F(ConfigTest, NamesAllProblemsAtOnce) {
    const std::string text =
        problem({"max_length=1", "lr=abc", "policy=gpu", "seed=1.5", "ram=lots", "packing=maybe", "val_split=0.1",
                 "eval_data=e", "warmup_steps=1", "warmup_ratio=0.1", "resume=x", "overwrite=true", "train_data=null"});
    for (const char* part :
         {"max_length: 1 is not in [2, ", "learning_rate: \"abc\" is not a number",
          "policy: \"gpu\" is not one of: auto, in_memory, host_stream, three_tier",
          "seed: \"1.5\" is not a whole number", "ram: \"lots\" is not a size",
          "packing: \"maybe\" is neither true nor false", "eval_data and val_split are both set",
          "warmup_steps and warmup_ratio are both set", "resume and overwrite are both set",
          "resume: \"x\" is neither auto nor", "model is not set", "train_data is not set", "output_dir is not set"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

TEST_F(ConfigTest, NamesContradictions) {
    EXPECT_THAT(problem(with({"policy=three_tier"})), HasSubstr("ssd_dir is not set"));
    EXPECT_THAT(problem(with({"policy=in_memory", "ssd_dir=/x"})), HasSubstr("in_memory uses no disk"));
    EXPECT_THAT(problem(with({"lr_scheduler_type=reduce_lr_on_plateau"})),
                HasSubstr("reduce_lr_on_plateau is not implemented"));
    EXPECT_THAT(problem(with({"min_lr_ratio=0.1"})),
                HasSubstr("min_lr_ratio has no meaning with lr_scheduler_type linear"));
    EXPECT_THAT(problem(with({"eval_steps=5"})), HasSubstr("nothing to evaluate on"));
    EXPECT_THAT(problem(with({"warmup_steps=9", "max_steps=5"})), HasSubstr("warmup_steps 9 exceeds max_steps 5"));
    EXPECT_THAT(problem(with({"seed=1", "seed=2"})), HasSubstr("seed is set already"));
    EXPECT_THAT(problem(with({"lr=1", "learning_rate=2"})), HasSubstr("learning_rate is set already"));
}

TEST_F(ConfigTest, NamesWhatAnEstimatorCannotDo) {
    const std::vector<std::string> words = {"model=m", "train_data=a.jsonl", "output_dir=o", "method=zeroth_order"};
    const auto with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> all = words;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    EXPECT_THAT(problem(with({"zo_estimator=fzoo"})), HasSubstr("of which there are 1"));
    EXPECT_EQ(problem(with({"zo_estimator=fzoo", "directions=2"})), "");
    EXPECT_THAT(problem(with({"sparse_share=0.5", "--method", "adamw"})), HasSubstr("a way of zeroth_order"));
    EXPECT_THAT(problem(with({"layer_drop=1"})), HasSubstr("layer_drop"));
    EXPECT_THAT(problem(with({"zo_estimator=fzo"})), HasSubstr("is not one of: two_sided, one_sided, fzoo, spsa15"));
}

TEST_F(ConfigTest, EveryMethodMayKeepWeightsInFewBits) {
    const auto with = [&](const std::string& method, const std::string& more) {
        return problem(
            {"model=m", "train_data=a.jsonl", "output_dir=o", "weight_storage=f8", "method=" + method, more});
    };
    EXPECT_EQ(with("zeroth_order", "seed=1"), "");
    EXPECT_EQ(with("forward_gradient", "seed=1"), "");
    EXPECT_EQ(with("adamw", "seed=1"), "");
    EXPECT_THAT(problem({"weight_storage=f16"}), HasSubstr("is not one of: as_file, f8, nf4"));
    EXPECT_THAT(problem({"model=m", "train_data=a.jsonl", "output_dir=o", "weight_storage=nf4", "method=zeroth_order",
                         "sparse_share=0.5"}),
                HasSubstr("Try: sparse_share: 1"));
}

TEST_F(ConfigTest, GradientsAreRoundedWhereTheyAreKept) {
    const auto with = [&](const std::string& method, const std::string& format) {
        return problem(
            {"model=m", "train_data=a.jsonl", "output_dir=o", "method=" + method, "gradient_format=" + format});
    };
    for (const char* format : {"f32", "bf16", "i8", "i4"}) EXPECT_EQ(with("adamw", format), "");
    for (const std::string method : {"zeroth_order", "forward_gradient", "lomo", "adalomo"}) {
        EXPECT_EQ(with(method, "f32"), "");
        EXPECT_THAT(with(method, "i8"), AllOf(HasSubstr("gradient_format is i8, but method " + method),
                                              HasSubstr("Try: gradient_format: f32")));
    }
    EXPECT_THAT(problem({"gradient_format=i2"}), HasSubstr("is not one of: f32, bf16, i8, i4"));
    Config config = read({"model=m", "train_data=a.jsonl", "output_dir=o", "gradient_format=i4"}).config;
    EXPECT_EQ(with_method(config, "lomo").gradient_format, "f32");
    EXPECT_EQ(with_method(config, "adamw").gradient_format, "i4");
}

TEST_F(ConfigTest, WindowsThatAreFoldedAtTheirEndLeaveNoOtherPeriod) {
    EXPECT_THAT(problem({"model=m", "train_data=a.jsonl", "output_dir=o", "method=zeroth_order", "noise=low_rank",
                         "merge_updates=per_window", "writeback_steps=4"}),
                HasSubstr("writeback_steps: auto"));
    EXPECT_THAT(problem({"merge_updates=each_moon"}), HasSubstr("is not one of: each_step, per_window, never"));
}

TEST_F(ConfigTest, NamesWhoCannotLearnFromWrittenAnswers) {
    const auto with = [&](const std::string& method, const std::string& more) {
        return problem({"model=m", "train_data=a.jsonl", "output_dir=o", "objective=f1", "method=" + method, more});
    };
    EXPECT_EQ(with("zeroth_order", "task=squad"), "");
    for (const char* method : {"adamw", "forward_gradient"})
        EXPECT_THAT(with(method, "task=squad"),
                    HasSubstr(fmt::format("objective f1 has no gradient that method {} could find", method)));
    EXPECT_THAT(with("zeroth_order", "seed=1"), HasSubstr("answers to the rows of a task, but task is not set"));
}

TEST_F(ConfigTest, RefusesFilesThatAreNoFlatYaml) {
    EXPECT_THAT(problem({write("a: [1\n")}), HasSubstr("not valid YAML"));
    EXPECT_THAT(problem({write("- a\n- b\n")}), HasSubstr("key: value"));
    EXPECT_THAT(problem({write("model: m\ntraining:\n  lr: 1\n")}), HasSubstr("yaml:2: training: keys are flat"));
    EXPECT_THAT(problem({write("train_data: [[a]]\n")}), HasSubstr("single values only"));
    EXPECT_THAT(problem({write("a: " + std::string(100000, '['))}), HasSubstr("not valid YAML"));
    EXPECT_THROW(read({write(std::string(kConfigBytesMax + 1, '#'))}), Error);
    EXPECT_THAT(problem({write("seed: 1"), "b.yaml"}), HasSubstr("there is a configuration file already"));
    EXPECT_THAT(problem({"--seed"}), HasSubstr("a value is missing"));
    EXPECT_THAT(problem({"-x"}), HasSubstr("no such flag"));
}

TEST_F(ConfigTest, RunYamlReadsBackAsTheSameConfig) {
    const ReadConfig first =
        read(with({"max_steps=3", "lr=3.0000000000000004e-05", "ram=73%", "save_steps=null", "eval_data=\"q\\z: #",
                   "report_to=[none]", "seed=12", "dtype=f32", "loss_watchdog_threshold=20"}));
    const std::string yaml = config_to_yaml(first.config);
    const ReadConfig second = read({write(yaml)});
    EXPECT_EQ(config_to_yaml(second.config), yaml);
    EXPECT_EQ(second.config.eval_data, std::vector<std::string>{"\"q\\z: #"});
    EXPECT_EQ(second.config.learning_rate, 3.0000000000000004e-05);
}

TEST_F(ConfigTest, DefaultsOfRunYamlPass) {
    const ReadConfig first = read(with({}));
    const ReadConfig second = read({write(config_to_yaml(first.config))});
    EXPECT_EQ(config_to_yaml(second.config), config_to_yaml(first.config));
}

TEST(ConfigKeys, NamesAndAliasesAreUnique) {
    std::set<std::string_view> names;
    for (const ConfigKey& key : config_keys()) {
        EXPECT_TRUE(names.insert(key.name).second) << key.name;
        for (const std::string_view alias : key.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
        EXPECT_EQ(find_key_advice(key.name), nullptr) << key.name;
        for (const std::string_view alias : key.aliases) EXPECT_EQ(find_key_advice(alias), nullptr) << alias;
    }
}

TEST(ConfigReference, IsWhatTheGuideHolds) {
    const std::string path = source_dir() + "/docs/guide/config.md";
    if (std::getenv("WINDLASS_WRITE_DOCS") != nullptr) std::ofstream(path) << config_reference();
    std::ifstream file(path);
    const std::string held((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(held, config_reference()) << "WINDLASS_WRITE_DOCS=1 unit_train writes it anew";
}

TEST(ConfigHelp, FitsTheTerminal) {
    std::istringstream lines(config_help(80));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(ConfigTest, AListThatIsNoneIsNamedWithItsPlace) {
    EXPECT_THAT(problem(with({"param_groups=[["})), HasSubstr("param_groups=[[: \"[[\" is not a list"));
    EXPECT_THAT(problem(with({"--param-groups", "[["})), HasSubstr("--param-groups: \"[[\" is not a list"));
}

}  // namespace
}  // namespace windlass
