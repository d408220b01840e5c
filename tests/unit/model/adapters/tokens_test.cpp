// Rows of single tokens: which tokens may be named where, and what peft's files say of them.
#include "model/adapters/tokens.h"

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/model/adapters/adapter_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class TrainedTokens : public testing::Test {
  protected:
    static auto named(const std::string& base, const std::vector<ModuleTokens>& said) {
        return tokens_by_layer(GoldenBase(base).model, said, ExitCode::usage, "key");
    }
    static std::string refusal(const std::string& base, const std::vector<ModuleTokens>& said) {
        try {
            named(base, said);
        } catch (const UserError& error) {
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
    // The adapter of a golden's folder with other words in its configuration.
    static AdapterFolder changed(const TempFolder& temp, const std::string& golden, const char* field,
                                 const Json& value) {
        const std::string from = peft_golden_folder(golden) + "/adapter";
        const AdapterFolder was = AdapterFolder::open(real_files(), from);
        std::vector<TestTensor> tensors;
        for (const TensorEntry& tensor : was.tensors()) {
            std::vector<std::byte> bytes(at(tensor.bytes));
            was.read(tensor, 0, bytes);
            tensors.push_back({{tensor.name, *tensor.dtype, tensor.shape}, bytes});
        }
        Json config = was.config();
        config[field] = value;
        write_adapter(temp / "adapter", config.dump(), tensors);
        return AdapterFolder::open(real_files(), temp / "adapter");
    }
    static std::string refused_folder(const std::string& golden, const std::string& base, const char* field,
                                      const Json& value) {
        const TempFolder temp;
        const AdapterFolder folder = changed(temp, golden, field, value);
        const GoldenBase on(base);
        try {
            const AdapterSettings settings = peft_settings(folder, on.model);
            peft_layers(folder, settings, on.model);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::model);
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
};

TEST_F(TrainedTokens, AreOfTheTableWhereNoModuleIsNamed) {
    EXPECT_EQ(named("llama", {{"", {3, 1}}}).at("model.embed_tokens"), (std::vector<int64_t>{3, 1}));
    EXPECT_EQ(named("gpt2", {{"wte", {3}}}).count("transformer.wte"), 1u);
    const auto both = named("llama", {{"embed_tokens", {3}}, {"lm_head", {5, 4}}});
    EXPECT_EQ(both.at("lm_head"), (std::vector<int64_t>{5, 4}));
    EXPECT_EQ(both.size(), 2u);
    EXPECT_TRUE(named("llama", {}).empty());
}

// peft trains the rows of both ends together wherever the embedding's are named.
TEST_F(TrainedTokens, OfATiedTableAreThoseOfBothEnds) {
    for (const char* const base : {"qwen2", "gpt2", "gemma2"}) {
        EXPECT_EQ(named(base, {{"", {3}}, {"lm_head", {3}}}).size(), 1u) << base;
        const std::string own = "is one end of a tied table: with tokens of its own there would be two tables. Try: ";
        EXPECT_THAT(refusal(base, {{"", {3}}, {"lm_head", {4}}}), HasSubstr(own)) << base;
        EXPECT_THAT(refusal(base, {{"lm_head", {4}}}), HasSubstr(own)) << base;
    }
}

TEST_F(TrainedTokens, RefuseWhatTheModelLacks) {
    EXPECT_THAT(refusal("llama", {{"", {96}}}),
                HasSubstr("96 is no token: the model has 96. Try: ids of the tokenizer, "
                          "from 0 to 95, each once"));
    EXPECT_THAT(refusal("llama", {{"", {-1}}}), HasSubstr("-1 is no token"));
    EXPECT_THAT(refusal("llama", {{"", {7, 8, 7}}}), HasSubstr("the token 7 is there twice"));
    EXPECT_THAT(refusal("llama", {{"", {}}}), HasSubstr("names a table and none of its tokens"));
    EXPECT_THAT(
        refusal("llama", {{"q_proj", {7}}}),
        HasSubstr("\"q_proj\" is neither the table of tokens nor the head. Try: model.embed_tokens or lm_head"));
}

TEST_F(TrainedTokens, OfFoldersAreRefusedByTheirField) {
    const char* const field = "trainable_token_indices";
    for (const Json& value : {Json("7"), Json({7.5}), Json({-1}), Json({{"embed_tokens", 7}}), Json(true)})
        EXPECT_THAT(refused_folder("llama_tokens", "llama", field, value), HasSubstr("\"trainable_token_indices\" "))
            << value;
    EXPECT_THAT(refused_folder("llama_tokens", "llama", field, {7, -3, 41}),
                HasSubstr("\"trainable_token_indices\" holds -3, expected ids of tokens"));
    EXPECT_THAT(refused_folder("llama_tokens", "llama", field, {7, 3, 1000}), HasSubstr("1000 is no token"));
    EXPECT_THAT(refused_folder("llama_tokens", "llama", field, nullptr),
                HasSubstr("adapter_config.json names no tokens of this module"));
    EXPECT_THAT(refused_folder("llama_tokens", "llama", field, {7, 3, 41}),
                HasSubstr("lm_head.token_adapter.trainable_tokens_delta"));
    EXPECT_THAT(refused_folder("qwen2_tokens", "qwen2", field, {7, 3, 41}),
                HasSubstr("is [2, 32], expected [3, 32] of this model's layer and the tokens in adapter_config.json"));
    EXPECT_THAT(refused_folder("tokens", "gemma2", "token_indices", Json()), HasSubstr("\"token_indices\" is null"));
    EXPECT_THAT(refused_folder("tokens", "gemma2", "target_modules", "model.norm"),
                HasSubstr("\"model.norm\" is neither the table of tokens nor the head"));
}

// Where the file has both ends of a tied table they are one: another number is another model.
TEST_F(TrainedTokens, OfBothEndsAreEqual) {
    const std::string from = peft_golden_folder("tokens") + "/adapter";
    const AdapterFolder was = AdapterFolder::open(real_files(), from);
    std::vector<TestTensor> tensors;
    for (const TensorEntry& tensor : was.tensors()) {
        std::vector<std::byte> bytes(at(tensor.bytes));
        was.read(tensor, 0, bytes);
        if (tensor.name.find("lm_head") != std::string::npos) bytes[3] ^= std::byte{1};
        tensors.push_back({{tensor.name, *tensor.dtype, tensor.shape}, bytes});
    }
    const TempFolder temp;
    write_adapter(temp / "adapter", was.config().dump(), tensors);
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp / "adapter");
    const GoldenBase base("gemma2");
    try {
        check_peft_tables(folder, peft_settings(folder, base.model), base.folder, base.model);
        ADD_FAILURE() << "nothing was thrown";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("lm_head.trainable_tokens_delta, which is tied to it, is "));
    }
}

// As peft writes them: a list for the table of tokens, else by module; alone, under both names of a tied table.
TEST_F(TrainedTokens, AreWrittenAsPeftWritesThem) {
    const auto written = [](const std::string& golden, const std::string& on) {
        const GoldenBase base(on);
        const AdapterFolder was = AdapterFolder::open(real_files(), peft_golden_folder(golden) + "/adapter");
        const AdapterSettings settings = peft_settings(was, base.model);
        const ModelSpec model = with_adapter(base.model, settings, peft_layers(was, settings, base.model));
        const ParamValues values = read_all(model, first_weights(base.folder, model, 0, &was));
        const TempFolder temp;
        save_peft(real_files(), temp / "adapter", model, {.base_name = "b"}, masters_of(values));
        const AdapterFolder is = AdapterFolder::open(real_files(), temp / "adapter");
        std::vector<std::string> theirs, ours;
        for (const TensorEntry& tensor : was.tensors()) theirs.push_back(tensor.name);
        for (const TensorEntry& tensor : is.tensors()) ours.push_back(tensor.name);
        EXPECT_THAT(ours, testing::UnorderedElementsAreArray(theirs)) << golden;
        return is.config();
    };
    EXPECT_EQ(written("qwen2_tokens", "qwen2").at("trainable_token_indices"), (Json{11, 2}));
    const Json by_module = written("llama_tokens", "llama").at("trainable_token_indices");
    EXPECT_EQ(by_module.at("model.embed_tokens"), (Json{7, 3, 41}));
    EXPECT_EQ(by_module.at("lm_head"), (Json{5, 0}));
    const Json alone = written("tokens", "gemma2");
    EXPECT_EQ(alone.at("token_indices"), (Json{9, 4}));
    EXPECT_EQ(alone.at("target_modules"), (Json{"embed_tokens"}));
    EXPECT_FALSE(alone.contains("modules_to_save"));
}

}  // namespace
}  // namespace windlass
