// What no key says: the files that a run was begun with, changed before it is resumed. What decides the result is
// refused by its name; what does not is no reason to refuse.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResumeFilesTest : public TrainTest {
  protected:
    ResumeFilesTest() {
        std::string chats;
        for (const char* answer : {"bad cab", "a deed", "add a bead", "fed", "dace", "face"})
            chats += Json({{"messages",
                            {{{"role", "user"}, {"content", "say"}}, {{"role", "assistant"}, {"content", answer}}}}})
                         .dump() +
                     "\n";
        write("chats.jsonl", chats);
        write("eval.jsonl", chats);
        write("model/chat_template.jinja",
              "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}");
        write("model/generation_config.json", R"({"eos_token_id": 95, "temperature": 0.5})");
        fs::copy(at("model"), at("model_as_it_was"), fs::copy_options::recursive);
        run("begun", settings());
        expect_resumed(nullptr);
        expected_ = bytes(std::string("again") + kWeights);
    }

    Settings settings() const {
        return {{"train_data", "[" + at("chats.jsonl") + "]"},
                {"eval_data", "[" + at("eval.jsonl") + "]"},
                {"eval_steps", "1"},
                {"load_best_model_at_end", "true"},
                {"max_steps", "2"},
                {"save_steps", "2"}};
    }
    // Resumes a copy, after `change`. `words`: of the refusal; nothing: it ends with the weights that it has otherwise.
    void expect_resumed(const std::function<void()>& change, const std::string& words = "", const Settings& more = {}) {
        for (const auto& [from, to] : {std::pair("begun", "again"), {"model_as_it_was", "model"}}) {
            fs::remove_all(at(to));
            fs::copy(at(from), at(to), fs::copy_options::recursive);
        }
        const std::string evaluated = bytes("eval.jsonl"), trained = bytes("chats.jsonl");
        if (change) change();
        Settings all = more;
        all.merge(Settings{{"resume", "auto"}, {"max_steps", "3"}});
        all.merge(settings());
        std::string refusal;
        try {
            run("again", all);
        } catch (const UserError& error) {
            refusal = error.what();
        }
        write("eval.jsonl", evaluated);
        write("chats.jsonl", trained);
        if (words.empty()) {
            EXPECT_EQ(refusal, "");
            const bool is_same = bytes(std::string("again") + kWeights) == expected_;
            EXPECT_TRUE(is_same || expected_.empty() || !more.empty()) << "other weights";
        } else {
            EXPECT_THAT(refusal, HasSubstr("this would not be the same run: "));
            EXPECT_THAT(refusal, HasSubstr(words));
        }
    }
    void edit(const std::string& name, const std::function<void(Json&)>& change) const {
        const std::string path = "model/" + name;
        Json json = Json::parse(files_.exists(at(path)) ? bytes(path) : "{}");
        change(json);
        write(path, json.dump(3));
    }
    std::function<void()> with_key(const std::string& name, const std::string& key, const Json& value) const {
        return [=, this] { edit(name, [&](Json& json) { json[key] = value; }); };
    }

    std::string expected_;
};

TEST_F(ResumeFilesTest, WhatDecidesTheResultIsRefusedByName) {
    const std::string rows = "training rows was ", config = " (config.json) was ";
    expect_resumed(with_key("config.json", "rms_norm_eps", 0.1), "run: rms_norm_eps" + config + "1e-05, is 0.1. Try");
    expect_resumed(with_key("config.json", "rope_theta", 500.0), "rope_theta" + config + "10000, is 500");
    expect_resumed(with_key("config.json", "max_position_embeddings", 80),
                   "max_position_embeddings" + config + "64, is 80");
    expect_resumed([&] { write("model/chat_template.jinja", bytes("model/chat_template.jinja") + "{{ eos_token }}"); },
                   rows);
    expect_resumed(with_key("generation_config.json", "eos_token_id", Json::array({95, 3})), rows);
    expect_resumed(with_key("tokenizer_config.json", "eos_token", "a"), rows);
    expect_resumed(
        [&] {
            edit("tokenizer.json",
                 [](Json& json) { std::swap(json["model"]["vocab"]["a"], json["model"]["vocab"]["b"]); });
        },
        rows);
    expect_resumed(
        [&] { write("chats.jsonl", bytes("eval.jsonl").replace(0, bytes("eval.jsonl").find('\n') + 1, "")); }, rows);
}

TEST_F(ResumeFilesTest, WhatDecidesNothingIsNoReasonToRefuse) {
    const auto rewritten = [&](const char* name) { return [=, this] { edit(name, [](Json&) {}); }; };
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
        SCOPED_TRACE(name);
        expect_resumed(rewritten(name));
    }
    expect_resumed(with_key("config.json", "transformers_version", "9.9"));
    expect_resumed(with_key("config.json", "use_cache", false));
    expect_resumed(with_key("config.json", "key_that_nothing_reads", 1));
    expect_resumed(with_key("tokenizer_config.json", "padding_side", "left"));
    expect_resumed(with_key("tokenizer_config.json", "pad_token", "z"));
    expect_resumed(with_key("generation_config.json", "temperature", 0.7));
    expect_resumed([&] { fs::remove(at("model/generation_config.json")); }, "training rows was ");
}

TEST_F(ResumeFilesTest, RowsThatABestStepIsFoundWithAreRefusedUnlessAllowed) {
    const std::string words = "evaluation rows was ";
    const auto other_word = [&] {
        std::string text = bytes("eval.jsonl");
        write("eval.jsonl", text.replace(text.find("deed"), 4, "dead"));
    };
    expect_resumed(other_word, words);
    expect_resumed(nullptr, words, {{"eval_samples", "3"}});
    expect_resumed(nullptr, words, {{"eval_data", "[" + at("chats.jsonl") + ", " + at("eval.jsonl") + "]"}});
    expect_resumed(other_word, words, {{"load_best_model_at_end", "false"}, {"early_stopping_patience", "9"}});
    set_log_level(LogLevel::warning);
    expect_resumed(nullptr, "", {{"eval_samples", "3"}, {"allow_changed_settings", "[eval_data]"}});
    set_log_level(LogLevel::error);
    EXPECT_THAT(bytes("again/log.txt"), HasSubstr("Resuming with changed settings: " + words));
    expect_resumed(other_word, "", {{"load_best_model_at_end", "false"}});
}

}  // namespace
}  // namespace windlass
