// Models and runs that were once refused, or trained into something else than meant, without a word.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GoodInput : public testing::Test {
  protected:
    // Three rows and what `auto` makes of them.
    Settings three_rows(const Settings& changes) {
        Settings settings = sandbox_.training();
        settings["train_data"] = sandbox_.rows(
            "three.jsonl", {R"({"text": "one row"})", R"({"text": "another row"})", R"({"text": "the third"})"});
        settings.erase("max_steps");
        settings.erase("per_device_train_batch_size");
        settings.erase("gradient_accumulation_steps");
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    // All that a run prints; it must succeed.
    std::string said(const Settings& settings) {
        const Finished finished = must_succeed(sandbox_.train(settings, {"--overwrite"}));
        return finished.out + finished.err;
    }
    Sandbox sandbox_;
};

TEST_F(GoodInput, AnEpochOfFewRowsIsOneStep) {
    const std::string once = said(three_rows({{"num_train_epochs", "1"}}));
    EXPECT_THAT(once,
                AllOf(HasSubstr("3 rows, 1 accumulation step"), HasSubstr("epoch 1.00"), Not(HasSubstr("times"))));
    EXPECT_THAT(said(three_rows({{"num_train_epochs", "3"}})),
                HasSubstr("each row is trained 3 times (rows: 3 an epoch, 3 a step)"));
    // What the user asks for is done, and said.
    EXPECT_THAT(said(three_rows({{"num_train_epochs", "1"}, {"per_device_train_batch_size", "8"}})),
                HasSubstr("each row is trained 2.67 times (rows: 3 an epoch, 8 a step)"));
    EXPECT_THAT(said(three_rows({{"num_train_epochs", "1"}, {"gradient_accumulation_steps", "2"}})),
                HasSubstr("1 rows, 2 accumulation steps"));
}

// A batch that nobody chose has no row twice: as many rows as an epoch, up to 8.
TEST_F(GoodInput, AStepHasNoRowTwiceUnlessItIsAskedFor) {
    const auto rows_of_a_step = [&](int rows) {
        std::vector<std::string> lines;
        for (int i = 0; i < rows; ++i) lines.push_back(fmt::format(R"({{"text": "row {}"}})", i));
        return said(three_rows({{"num_train_epochs", "1"}, {"train_data", sandbox_.rows("some.jsonl", lines)}}));
    };
    for (const int rows : {1, 7, 8})
        EXPECT_THAT(rows_of_a_step(rows),
                    AllOf(HasSubstr(fmt::format("{} rows, 1 accumulation step", rows)), Not(HasSubstr("times"))));
    EXPECT_THAT(rows_of_a_step(9), HasSubstr("each row is trained 1.78 times (rows: 9 an epoch, 8 a step)"));
}

TEST_F(GoodInput, ARunWithoutARateIsWarnedOf) {
    EXPECT_THAT(said(three_rows({{"max_steps", "1"}, {"warmup_ratio", "0.1"}})),
                HasSubstr("warning: the learning rate of every step is 0, since the run has 1 step and 1 of warmup"));
    EXPECT_THAT(said(three_rows({{"max_steps", "1"}, {"learning_rate", "0"}})), HasSubstr("learning_rate is 0"));
    EXPECT_THAT(said(three_rows({{"max_steps", "2"}, {"warmup_steps", "1"}})), Not(HasSubstr("of every step is 0")));
}

// Attention of heads of 16 numbers; on the CPU they have no other kernels.
TEST_F(GoodInput, SlowKernelsOfACardAreWarnedOf) {
    const std::string warning = "attention on the device takes f32 kernels without tensor cores, for heads of ";
    const auto planned = [&](const Settings& settings) {
        std::vector<std::string> words = words_of(settings);
        words.insert(words.begin(), {"plan", "--alone"});
        return must_succeed(sandbox_.windlass(words)).err;
    };
    Settings settings = sandbox_.training();
    EXPECT_THAT(planned(settings), Not(HasSubstr(warning)));
    settings["machine"] = "rtx4090-desktop";
    EXPECT_THAT(planned(settings), HasSubstr(warning));
}

TEST_F(GoodInput, NamesOfTensorsThatAFrameworkWrappedAreRead) {
    const std::string model = sandbox_.model();
    const std::string plain = said(sandbox_.training());
    const Tensors trained = read_safetensors(sandbox_.out() + "/final/model.safetensors");
    const Tensors base = read_safetensors(model + "/model.safetensors");
    const auto inner = [](const std::string& name) {
        const size_t at = name.find(".mlp");
        return at == name.npos ? name : name.substr(0, at) + "._orig_mod" + name.substr(at);
    };
    const std::vector<std::function<std::string(const std::string&)>> wraps = {
        [](const std::string& name) { return "_orig_mod." + name; },
        [](const std::string& name) { return "module." + name; },
        [](const std::string& name) { return "_orig_mod.module." + name; }, inner};
    for (const auto& wrap : wraps) {
        edit_safetensors(model + "/model.safetensors", [&](Json& header, std::string&) {
            Json wrapped = Json::object();
            for (const auto& [name, entry] : base.header.items())
                wrapped[name == "__metadata__" ? name : wrap(name)] = entry;
            header = std::move(wrapped);
        });
        EXPECT_THAT(said(sandbox_.training()), HasSubstr("the names of tensors are read without")) << wrap("x.mlp");
        EXPECT_EQ(read_safetensors(sandbox_.out() + "/final/model.safetensors"), trained) << wrap("x.mlp");
    }
}

TEST_F(GoodInput, ATokenizerWithOneIdTooManyIsNoted) {
    edit_json(sandbox_.model() + "/tokenizer.json", [](Json& json) {
        Json token = json["added_tokens"].back();
        token["id"] = 260;
        token["content"] = "<extra>";
        json["added_tokens"].push_back(token);
    });
    Settings settings = sandbox_.training();
    EXPECT_THAT(said(settings), HasSubstr("the tokenizer has 261 ids, the model 260 rows"));
    settings["train_data"] = sandbox_.rows("extra.jsonl", {R"({"text": "fine"})", R"({"text": "an <extra> one"})"});
    const std::string uses = "extra.jsonl:2: uses the token \"<extra>\", whose id is 260: the model has 260 rows";
    const Finished finished = run(sandbox_.train(settings, {"--overwrite"}));
    EXPECT_EQ(finished.code, kData) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr(uses));
    settings["skip_malformed"] = "true";
    EXPECT_THAT(said(settings), HasSubstr("skipped a malformed row"));
    const std::string model = sandbox_.model(), rows = sandbox_ / "extra.jsonl";
    const std::vector<std::pair<std::vector<std::string>, std::string>> tried = {
        {{"eval", model, "--data", rows}, uses},
        {{"data", "show", "model=" + model, "train_data=" + rows}, uses},
        {{"generate", model, "--prompt", "an <extra>"}, "prompt: uses the token \"<extra>\""}};
    for (const auto& [words, message] : tried) {
        const Finished other = run(sandbox_.windlass(words));
        EXPECT_EQ(other.code, kData) << describe(other);
        EXPECT_THAT(other.err, HasSubstr(message));
    }
}

TEST_F(GoodInput, QuantisedBasesGetAdviceThatHelps) {
    for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
        Sandbox sandbox;
        edit_json(sandbox.model() + "/config.json", [&](Json& config) {
            config[key] = {{"quant_method", "awq"}, {"bits", 4}};
        });
        const Finished finished = run(sandbox.train(sandbox.training()));
        EXPECT_EQ(finished.code, kModel) << describe(finished);
        EXPECT_THAT(finished.err,
                    AllOf(HasSubstr("the weights are quantised"), HasSubstr("Try: the model in bf16 or fp16"),
                          HasSubstr("weight_storage: nf4"), HasSubstr(fmt::format("ignore_config_keys: [{}]", key))));
    }
}

// A base whose own files stop at another token than its template's turns end with.
class TurnEnd : public GoodInput {
  protected:
    TurnEnd() {
        edit_json(sandbox_.model() + "/tokenizer_config.json", [](Json& config) {
            config["chat_template"] =
                "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}{{ eos_token }}{% endfor %}"
                "{% if add_generation_prompt %}assistant:{% endif %}";
        });
        eos_ = read_json(sandbox_.model() + "/config.json").at("eos_token_id").get<int>();
        write_bytes(sandbox_.model() + "/generation_config.json", R"({"eos_token_id": 5, "temperature": 0.6})");
        settings_ = sandbox_.training();
        settings_["train_data"] = sandbox_.rows(
            "chats.jsonl",
            {R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]})",
             R"({"messages": [{"role": "user", "content": "R"}, {"role": "assistant", "content": "B"}]})"});
    }
    int eos_ = 0;
    Settings settings_;
};

TEST_F(TurnEnd, StopsWhatWasTrained) {
    const std::string text = said(settings_);
    EXPECT_THAT(text, AllOf(HasSubstr("is not among the model's eos_token_id"),
                            HasSubstr("generation_config.json of the trained model is changed: it stops at </s> too")));
    const Json changed = {{"eos_token_id", {5, eos_}}, {"temperature", 0.6}};
    EXPECT_EQ(read_json(sandbox_.out() + "/final/generation_config.json"), changed);
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "export"}));
    EXPECT_EQ(read_json(sandbox_ / "export/generation_config.json"), changed);
    // Of a folder without that file, as config.json has it.
    std::filesystem::remove(sandbox_.model() + "/generation_config.json");
    edit_json(sandbox_.model() + "/config.json", [](Json& config) { config["eos_token_id"] = 7; });
    said(settings_);
    EXPECT_EQ(read_json(sandbox_.out() + "/final/generation_config.json").at("eos_token_id"), Json({7, eos_}));
}

TEST_F(TurnEnd, StopsAMergedModel) {
    settings_["adapter"] = "lora";
    EXPECT_THAT(said(settings_), HasSubstr("generation_config.json of merged models is changed"));
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--merged", "--to", sandbox_ / "merged"}));
    EXPECT_EQ(read_json(sandbox_ / "merged/generation_config.json").at("eos_token_id"), Json({5, eos_}));
}

TEST_F(TurnEnd, ThatIsListedLeavesTheFileAlone) {
    const std::string own = fmt::format(R"({{"eos_token_id":[5,{}]}})", eos_);
    write_bytes(sandbox_.model() + "/generation_config.json", own);
    EXPECT_THAT(said(settings_), Not(HasSubstr("generation_config.json")));
    EXPECT_EQ(read_bytes(sandbox_.out() + "/final/generation_config.json"), own);
}

// Rows of the tables that were never trained, under an adapter.
TEST_F(TurnEnd, IsWarnedOfWhereTheBaseNeverLearnedIt) {
    const std::string weights = sandbox_.model() + "/model.safetensors";
    const auto zero_row = [&](const std::string& table, int id) {
        edit_safetensors(weights, [&](Json& header, std::string& data) {
            const Json& entry = header.at(table);
            const auto begin = entry.at("data_offsets")[0].get<size_t>();
            const auto row = static_cast<size_t>(entry.at("shape")[1].get<int64_t>()) * 2;  // bf16
            std::fill_n(data.begin() + static_cast<ptrdiff_t>(begin + row * static_cast<size_t>(id)), row, '\0');
        });
    };
    settings_["adapter"] = "lora";
    EXPECT_THAT(said(settings_), Not(HasSubstr("never learned")));
    zero_row("model.embed_tokens.weight", eos_);
    EXPECT_THAT(said(settings_),
                HasSubstr("warning: model.embed_tokens.weight: the rows of </s>, which the chat template "
                          "writes, are zero"));
    zero_row("lm_head.weight", eos_);
    EXPECT_THAT(said(settings_), HasSubstr("warning: lm_head.weight: the rows of </s>"));
    // The way out trains these rows with those that are to train already, and silences the warning.
    settings_["trainable_token_indices"] = "[7]";
    const std::string both =
        fmt::format("{{embed_tokens: [{0}, {1}], lm_head: [{0}, {1}]}}", std::min(7, eos_), std::max(7, eos_));
    EXPECT_THAT(said(settings_), HasSubstr("Try: the Instruct version of the base, trainable_token_indices: " + both));
    settings_["trainable_token_indices"] = fmt::format("[{0}, lm_head={0}]", eos_);
    EXPECT_THAT(said(settings_), Not(HasSubstr("never learned")));
    settings_["adapter"] = "trainable_tokens";  // which trains no module whole
    settings_["trainable_token_indices"] = "[7]";
    EXPECT_THAT(said(settings_), HasSubstr("Try: the Instruct version of the base, trainable_token_indices: " + both));
    settings_.erase("trainable_token_indices");
    settings_.erase("adapter");  // then the tables are trained
    EXPECT_THAT(said(settings_), Not(HasSubstr("never learned")));
}

// One adapter, named in two ways: one run.
TEST_F(GoodInput, AnAdapterIsTheSameAsAModelAndAsAnAdapter) {
    Settings settings = sandbox_.training();
    settings["adapter"] = "lora";
    said(settings);
    const std::string adapter = sandbox_.out() + "/final";
    const auto yaml_of = [&](const std::vector<std::string>& words) {
        std::vector<std::string> all = {"train", "--dry-run", "train_data=" + sandbox_.token_rows(),
                                        "output_dir=" + (sandbox_ / "next")};
        all.insert(all.end(), words.begin(), words.end());
        return must_succeed(sandbox_.windlass(all)).out;
    };
    const std::string both = yaml_of({"model=" + sandbox_.model(), "adapter=" + adapter});
    EXPECT_THAT(both, HasSubstr("learning_rate: 0.0002"));
    EXPECT_EQ(yaml_of({"model=" + adapter}), both);
}

}  // namespace
}  // namespace windlass::cli
