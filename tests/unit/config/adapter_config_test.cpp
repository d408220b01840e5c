// Keys of adapters: what they mean together, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"

namespace windlass {
namespace {

using testing::HasSubstr;

Config adapter_config(std::vector<std::string> words) {
    words.insert(words.end(), {"model=m", "train_data=rows.jsonl", "output_dir=out"});
    return make_config(read_config_sources(real_files(), words), ConfigUse::train).config;
}

std::string adapter_problem(const std::vector<std::string>& words) {
    try {
        adapter_config(words);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "no problem";
}

TEST(AdapterConfig, HasTheDefaultsOfThePage) {
    const Config config = adapter_config({"adapter=lora"});
    EXPECT_EQ(config.lora_r, 16);
    EXPECT_EQ(config.lora_alpha, 32);
    EXPECT_FALSE(config.use_rslora);
    EXPECT_FALSE(config.use_dora);
    EXPECT_THAT(config.lora_target_modules, testing::ElementsAre("all-linear"));
    EXPECT_EQ(config.learning_rate, 2e-4);
    EXPECT_EQ(adapter_config({"adapter=lora", "learning_rate=1e-3"}).learning_rate, 1e-3);
    EXPECT_EQ(adapter_config({"adapter=lsp"}).learning_rate, 1e-4);
    EXPECT_NE(adapter_config({}).learning_rate, 2e-4);
}

TEST(AdapterConfig, KnowsTheNamesOfOthers) {
    const Config config =
        adapter_config({"adapter=lora", "lora_rank=8", "lora_target=[q_proj, v_proj]", "peft_use_rslora=true"});
    EXPECT_EQ(config.lora_r, 8);
    EXPECT_THAT(config.lora_target_modules, testing::ElementsAre("q_proj", "v_proj"));
    EXPECT_TRUE(config.use_rslora);
    EXPECT_TRUE(adapter_config({"adapter=qlora", "peft_use_dora=true"}).use_dora);
    EXPECT_TRUE(adapter_config({"finetuning_type=full"}).adapter.empty());
    EXPECT_TRUE(adapter_config({"adapter=none"}).adapter.empty());
}

TEST(AdapterConfig, QloraIsLoraOverFourBits) {
    const Config config = adapter_config({"adapter=qlora"});
    EXPECT_EQ(config.adapter, "lora");
    EXPECT_EQ(config.weight_storage, "nf4");
    EXPECT_EQ(adapter_config({"adapter=lora", "load_in_4bit=true"}).weight_storage, "nf4");
    EXPECT_EQ(adapter_config({"adapter=lora"}).weight_storage, "as_file");
    EXPECT_THAT(adapter_problem({"adapter=qlora", "weight_storage=f8"}),
                HasSubstr("weight_storage is f8, but 4 bits are asked for. Try: weight_storage: nf4"));
}

TEST(AdapterConfig, QuotesTheBeginningOfALongPattern) {
    const std::string pattern(500'000, 'q');
    for (const char* const key : {"alpha_pattern", "rank_pattern", "trainable_token_indices"}) {
        for (const char* const number : {"", "=", "=x"}) {
            const std::string said = adapter_problem({"adapter=lora", fmt::format("{}=[{}{}]", key, pattern, number)});
            EXPECT_LT(said.size(), 1000u) << key;
            EXPECT_THAT(said, HasSubstr("qqq... (50000")) << key;
        }
    }
}

TEST(AdapterConfig, RefusesNumbersOutOfBounds) {
    const std::pair<const char*, const char*> cases[] = {
        {"lora_r=0", "lora_r: 0 is not in [1, 65536]"},
        {"lora_r=65537", "lora_r: 65537 is not in [1, 65536]"},
        {"lora_r=1099511627776", "lora_r: 1099511627776 is not in [1, 65536]"},
        {"lora_r=2.5", "lora_r: \"2.5\" is not a whole number"},
        {"lora_alpha=0", "lora_alpha: 0 is not in "},
        {"lora_alpha=-1", "lora_alpha: -1 is not in "},
        {"lora_alpha=nan", "lora_alpha: "},
        {"lora_alpha=inf", "lora_alpha: "},
        {"lora_alpha=x", "lora_alpha: \"x\" is not a number"},
        {"lsp_d=0", "lsp_d: 0 is not in [1, 65535]"},
        {"lsp_d=65536", "lsp_d: 65536 is not in [1, 65535]"},
        {"lsp_r=0", "lsp_r: 0 is not in [1, 64]"},
        {"lsp_r=65", "lsp_r: 65 is not in [1, 64]"},
        {"lora_dropout=0.05", "lora_dropout: dropout is not implemented. Try: lora_dropout: 0"},
    };
    for (const auto& [word, problem] : cases) EXPECT_THAT(adapter_problem({"adapter=lora", word}), HasSubstr(problem));
}

TEST(AdapterConfig, RefusesSettingsOfWhatIsNotThere) {
    for (const char* word :
         {"lora_r=8", "lora_alpha=8", "use_rslora=true", "use_dora=true", "lora_target_modules=[q_proj]"}) {
        const std::string key = std::string(word).substr(0, std::string(word).find('='));
        EXPECT_THAT(adapter_problem({word}), HasSubstr(key + " has no meaning without an adapter. Try: adapter: lora"));
        EXPECT_THAT(adapter_problem({word, "adapter=runs/mine/final"}),
                    HasSubstr(key + " is what the adapter in runs/mine/final says. Try: leave it out"));
    }
    for (const char* word : {"lsp_d=8", "lsp_r=4", "lsp_host_bytes=1GiB", "lsp_link_bytes=1GiB"}) {
        const std::string key = std::string(word).substr(0, std::string(word).find('='));
        EXPECT_THAT(adapter_problem({word}), HasSubstr(key + " has no meaning without an adapter. Try: adapter: lsp"));
        EXPECT_THAT(adapter_problem({word, "adapter=lora"}),
                    HasSubstr(key + " has no meaning for adapter lora. Try: adapter: lsp"));
    }
    EXPECT_THAT(adapter_problem({"adapter=lsp", "lora_r=8"}),
                HasSubstr("lora_r has no meaning for adapter lsp. Try: adapter: lora"));
    EXPECT_THAT(adapter_problem({"adapter=ia3", "use_dora=true"}),
                HasSubstr("use_dora has no meaning for adapter ia3. Try: adapter: lora"));
    EXPECT_THAT(adapter_problem({"adapter=lsp", "lsp_host_bytes=50%"}),
                HasSubstr("lsp_host_bytes: a share of nothing"));
    // run.yaml writes every key down: what is the default contradicts nothing.
    EXPECT_EQ(adapter_config({"lora_r=16", "lora_alpha=32"}).adapter, "");
}

TEST(AdapterConfig, RefusesKeysOfOthersThatMeanSomethingElse) {
    EXPECT_THAT(adapter_problem({"adapter=lora", "loraplus_lr_ratio=16"}), HasSubstr("learning_rate_scale=16"));
}

}  // namespace
}  // namespace windlass
