// Training files of LLaMA-Factory and axolotl become configurations that plan.
//
// The files in tests/train/foreign are written for these tests, with the keys that such files usually have.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "config/foreign/translate.h"
#include "session/session.h"
#include "tests/place.h"
#include "tests/train/train_fixture.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ForeignConfig : public TrainTest {
  protected:
    // Rows of every field that the files name.
    ForeignConfig() {
        std::string rows;
        for (int i = 0; i < 20; ++i) rows += "{\"text\": \"some words\", \"body\": \"some other words\"}\n";
        write("train.jsonl", rows);
        rows.clear();
        for (int i = 0; i < 20; ++i)
            rows += "{\"prompt\": \"some\", \"chosen\": \" words\", \"rejected\": \" others\"}\n";
        write("pairs.jsonl", rows);
    }
    static std::vector<std::string> files_of(const std::string& tool) {
        std::vector<std::string> found;
        for (const auto& entry : fs::directory_iterator(source_dir() + "/tests/train/foreign/" + tool))
            found.push_back(entry.path().string());
        std::ranges::sort(found);
        return found;
    }
    // What it makes of a file of this text.
    Translation translate(const std::string& text) const {
        write("foreign.yaml", text);
        return translate_config(files_, at("foreign.yaml"));
    }
    std::string problem(const std::string& text) const {
        try {
            translate(text);
        } catch (const UserError& error) {
            return error.what();
        }
        return "no problem";
    }
    // With the small model and its rows in place of those that the file names.
    Session plan(const std::string& yaml) const {
        write("translated.yaml", yaml);
        const bool has_pairs = yaml.find("\nobjective:") != yaml.npos;
        const std::string rows = at(has_pairs ? "pairs.jsonl" : "train.jsonl");
        std::vector<std::string> words = {at("translated.yaml"), "model=" + at("model"), "train_data=[" + rows + "]",
                                          "output_dir=" + at("out"), "threads=2"};
        if (yaml.find("\neval_data:") != yaml.npos)
            words.push_back("eval_data=[" + (has_pairs ? rows : at("eval.jsonl")) + "]");
        const Config config = make_config(read_config_sources(files_, words), ConfigUse::plan).config;
        return prepare_session(files_, config, std::nullopt, ConfigUse::plan);
    }
    static std::string reason(const Translation& translation, const std::string& key) {
        for (const DroppedKey& each : translation.dropped)
            if (each.key == key) return each.reason;
        return "not dropped";
    }
};

TEST_F(ForeignConfig, TenFilesOfEachToolTranslateAndPlan) {
    for (const auto& [tool, name] : {std::pair{"llama_factory", "LLaMA-Factory"}, {"axolotl", "axolotl"}}) {
        const std::vector<std::string> paths = files_of(tool);
        EXPECT_EQ(paths.size(), 10u);
        for (const std::string& path : paths) {
            SCOPED_TRACE(path);
            const Translation translation = translate_config(files_, path);
            EXPECT_EQ(translation.tool, name);
            try {
                EXPECT_GT(plan(translation.yaml).planned.memory_bytes, 0);
            } catch (const UserError& error) {
                ADD_FAILURE() << error.what() << "\n" << translation.yaml;
            }
            for (const DroppedKey& each : translation.dropped) {
                EXPECT_FALSE(each.reason.empty()) << each.key;
                EXPECT_EQ(each.reason.find("nothing here has that name"), std::string::npos) << each.key;
            }
        }
    }
}

TEST_F(ForeignConfig, WhatALlamaFactoryFileSays) {
    const Translation t = translate_config(files_, source_dir() + "/tests/train/foreign/llama_factory/qlora_sft.yaml");
    EXPECT_THAT(t.yaml,
                AllOf(HasSubstr("\nadapter: lora\n"), HasSubstr("\nweight_storage: nf4"), HasSubstr("\nlora_r: 4\n"),
                      HasSubstr("\nlora_alpha: 8\n"), HasSubstr("\nlora_target_modules: [q_proj, v_proj]\n"),
                      HasSubstr("\nstate_format: int8  # "), HasSubstr("\ndtype: bf16  # was fp16"),
                      HasSubstr("\nlearning_rate: 0.0002\n"), HasSubstr("\nmax_length: 64  # ")));
    EXPECT_THAT(t.yaml, Not(HasSubstr("lora_dropout")));
    EXPECT_THAT(reason(t, "lora_dropout"), HasSubstr("not implemented"));
    EXPECT_THAT(reason(t, "warmup_steps"), HasSubstr("no warm-up"));
    EXPECT_THAT(reason(t, "double_quantization"), HasSubstr("nf4"));
}

TEST_F(ForeignConfig, ToolsDefaultsAreWrittenOutWhereOursAreOthers) {
    const Translation factory = translate("model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndataset: a\n");
    EXPECT_THAT(factory.yaml,
                AllOf(HasSubstr("learning_rate: 5e-05  # LLaMA-Factory's default"), HasSubstr("max_length: 2048"),
                      HasSubstr("lora_r: 8"), HasSubstr("lora_alpha: 16"), HasSubstr("train_data: [data/a.json]")));
    const Translation other = translate("base_model: m\ndatasets:\n  - path: a.jsonl\n");
    EXPECT_THAT(other.yaml, AllOf(HasSubstr("num_train_epochs: 1  # axolotl's default"), HasSubstr("max_length: 512"),
                                  HasSubstr("lr_scheduler_type: cosine"), HasSubstr("warmup_ratio: 0.03")));
}

TEST_F(ForeignConfig, PreferencesAreTakenWithTheirBeta) {
    const std::string factory =
        "model_name_or_path: m\nstage: dpo\nfinetuning_type: lora\ndataset: a\npref_beta: 0.5\n";
    EXPECT_THAT(translate(factory).yaml, AllOf(HasSubstr("\nobjective: dpo\n"), HasSubstr("\npreference_beta: 0.5\n")));
    EXPECT_THAT(translate(factory + "pref_loss: orpo\n").yaml,
                AllOf(HasSubstr("\nobjective: orpo\n"), HasSubstr("\npreference_beta: 0.5\n")));
    const Translation simpo = translate(factory + "pref_loss: simpo\n");
    EXPECT_THAT(simpo.yaml, AllOf(Not(HasSubstr("objective")), Not(HasSubstr("preference_beta"))));
    EXPECT_THAT(reason(simpo, "stage"), HasSubstr("simpo is not supported"));
    const std::string axolotl = "base_model: m\ndatasets:\n  - path: a.jsonl\nrl: orpo\norpo_alpha: 0.3\n";
    EXPECT_THAT(translate(axolotl).yaml,
                AllOf(HasSubstr("\nobjective: orpo\n"), HasSubstr("\npreference_beta: 0.3\n"),
                      HasSubstr("\ntrain_on_prompt: true  # the first term of TRL's ORPO is over the prompt too\n")));
}

// Where the Trainer means something else by a key (docs/guide/differences.md), the key's remark says it.
TEST_F(ForeignConfig, KeysThatMeanSomethingElseSayIt) {
    const TempFolder folder;
    const auto yaml_of = [&](const std::string& more) {
        write_text_atomic(files_, folder / "f.yaml",
                          "model_name_or_path: models/base\nstage: sft\ndo_train: true\n" + more);
        return translate_config(files_, folder / "f.yaml").yaml;
    };
    EXPECT_THAT(yaml_of("num_train_epochs: 2\n"), HasSubstr("the last step of an epoch takes rows of the next"));
    EXPECT_THAT(yaml_of("num_train_epochs: 1\n"), Not(HasSubstr("takes rows of the next")));
    EXPECT_THAT(yaml_of("val_size: 0.1\n"), HasSubstr("# the evaluation loss is a mean over tokens"));
}

TEST_F(ForeignConfig, WhatAnAxolotlFileSays) {
    const std::string folder = source_dir() + "/tests/train/foreign/axolotl/";
    const Translation own = translate_config(files_, folder + "own_prompt.yaml");
    EXPECT_THAT(own.yaml,
                AllOf(HasSubstr("\ninstruction_field: question\n"), HasSubstr("\noutput_field: answer\n"),
                      HasSubstr("\neval_data: [rows/held.jsonl]  # the evaluation loss is a mean over tokens"),
                      HasSubstr("\neval_steps: 3\n")));
    EXPECT_THAT(reason(own, "datasets.type.format"), HasSubstr("no format"));
    EXPECT_THAT(reason(own, "optimizer"), HasSubstr("lion_8bit is not implemented"));
    EXPECT_THAT(own.yaml, HasSubstr("; the Trainer's is one over batches"));
    const Translation layers = translate_config(files_, folder + "lora_layers.yaml");
    EXPECT_THAT(layers.yaml, HasSubstr("\ntrain_data: [rows/a.jsonl, rows/folder/one.jsonl, rows/folder/two.jsonl]\n"));
    EXPECT_THAT(layers.yaml, HasSubstr("\nuse_dora: true"));
    const Translation hub = translate_config(files_, folder + "lora.yaml");
    EXPECT_THAT(hub.yaml, HasSubstr("\ntrain_data: [somebody/alpaca-rows]  # of the Hugging Face hub"));
    EXPECT_THAT(reason(hub, "special_tokens"), HasSubstr("model's"));
    EXPECT_THAT(reason(hub, "evals_per_epoch"), HasSubstr("eval_steps"));
}

TEST_F(ForeignConfig, AFileThatIsOfNobodyOrHostileIsRefused) {
    EXPECT_THAT(problem("a: 1\n"), HasSubstr("is no training file of LLaMA-Factory, axolotl or transformers"));
    EXPECT_THAT(problem("- a\n"), HasSubstr("\"key: value\""));
    EXPECT_THAT(problem("base_model: [\n"), HasSubstr("not valid YAML"));
    std::string deep = "base_model: m\ndatasets: ";
    for (int i = 0; i < 12; ++i) deep += '[';
    for (int i = 0; i < 12; ++i) deep += ']';
    EXPECT_THAT(problem(deep), HasSubstr("no training file is"));
    std::string bomb = "base_model: m\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 7; ++i) {
        bomb += fmt::format("a{0}: &a{0} [", i);
        for (int j = 0; j < 10; ++j) bomb += fmt::format("{}*a{}", j > 0 ? ", " : "", i - 1);
        bomb += "]\n";
    }
    EXPECT_THAT(problem(bomb), HasSubstr("no training file is"));
    // What a file says stays on its line.
    const Translation t = translate("base_model: \"m\\nram: 1GiB\"\ndatasets:\n  - path: a\n    type: \"x\\ny\"\n");
    EXPECT_THAT(t.yaml, HasSubstr("model: \"m\\x0aram: 1GiB\"\n"));
    EXPECT_EQ(reason(t, "datasets.type").find('\n'), std::string::npos);
}

}  // namespace
}  // namespace windlass
