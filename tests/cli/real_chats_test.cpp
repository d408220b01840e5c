// A small real model learns who it is from real chats, says it in a conversation, and ends its answers itself.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSpoken =
    "{% for m in messages %}{% if m['role'] == 'assistant' %}A: {{ m['content'] }}{{ eos_token }}"
    "{% else %}U: {{ m['content'] }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}A: {% endif %}";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        lines.push_back(text.substr(begin, end - begin));
    return lines;
}

// The small model, which has told stories so far, with a template; and rows that give it a name.
class RealChats : public testing::Test {
  protected:
    void prepare() {
        fs::copy(shared_data("model-stories260K-hf"), sandbox_ / "model");
        write_bytes(sandbox_ / "model/chat_template.jinja", kSpoken);
    }
    void write_rows(const std::string& name, const std::vector<std::pair<std::string, std::string>>& words) {
        std::string text = read_bytes(shared_data("data-chat-and-preference") + "/" + name);
        for (const auto& [word, with] : words) text = replaced(std::move(text), word, with);
        write_bytes(sandbox_ / "rows.json", text);
    }
    // What it answers then, a line each, and that each answer ended by itself.
    std::vector<std::string> answers_after(int steps, const std::string& questions) {
        must_succeed(sandbox_.windlass({"train",
                                        "--model",
                                        sandbox_ / "model",
                                        "--train-data",
                                        sandbox_ / "rows.json",
                                        "--output-dir",
                                        sandbox_.out(),
                                        "--max-steps",
                                        std::to_string(steps),
                                        "--learning-rate",
                                        "1e-2",
                                        "--lr-scheduler-type",
                                        "cosine",
                                        "--warmup-steps",
                                        "5",
                                        "--per-device-train-batch-size",
                                        "8",
                                        "--max-length",
                                        "256",
                                        "--save-steps",
                                        "null",
                                        "--seed",
                                        "1"}));
        Command chat = sandbox_.windlass({"chat", sandbox_.out() + "/final", "--max-new-tokens", "200"});
        chat.input = questions;
        const Finished said = must_succeed(chat);
        EXPECT_THAT(said.err, Not(HasSubstr("was cut")));
        return lines_of(said.out);
    }
    Sandbox sandbox_;
};

TEST_F(RealChats, InAlpacasFormTeachAName) {
    WINDLASS_NEEDS_SHARED_DATA("data-chat-and-preference", "model-stories260K-hf");
    prepare();
    write_rows("identity.json", {{"{{name}}", "Ada"}, {"{{author}}", "Lovelace"}});
    const std::vector<std::string> answers = answers_after(120, "What is your name?\n/reset\nWho are you?\n");
    ASSERT_EQ(answers.size(), 2u);
    for (const std::string& answer : answers) EXPECT_THAT(answer, AllOf(HasSubstr("Ada"), HasSubstr("Lovelace")));
}

TEST_F(RealChats, InSharegptsFormTeachTurns) {
    WINDLASS_NEEDS_SHARED_DATA("data-chat-and-preference", "model-stories260K-hf");
    prepare();
    write_rows("fastchat_dummy_conversation.json", {});
    const std::vector<std::string> answers = answers_after(80, "What is your name?\nHave a nice day!\n");
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_THAT(answers[0], AllOf(HasSubstr("language model"), EndsWith("Large Model Systems Organization (LMSYS).")));
    EXPECT_EQ(answers[1], "You too!");
}

}  // namespace
}  // namespace windlass::cli
