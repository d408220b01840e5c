// Rows of which a template makes more than its bounds: the template is at fault, not each of the rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "rows/answer_places.h"
#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using fixtures::kChatMl;
using testing::AllOf;
using testing::HasSubstr;

const std::string kBreaksItsBounds = "{{ 'a' * 2 ** 40 }}";

// Conversations of more than three messages break its bounds.
std::string hostile_to_long_chats(const std::string& condition = "messages | length > 3") {
    return "{% if " + condition + " %}" + kBreaksItsBounds + "{% endif %}" + kChatMl;
}

const std::string kShort = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})";
const std::string kLong = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, )"
                          R"({"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]})";

struct SkippedRows {
    int64_t skipped = 0;
    std::string refusal;
    ExitCode code = ExitCode::ok;
};

SkippedRows read_skipping(const std::string& rows, const std::string& chat_template) {
    SkippedRows outcome;
    RowsOptions options;
    options.skip_malformed = true;
    options.on_malformed = [&](const UserError&) { ++outcome.skipped; };
    try {
        fixtures::read_them(rows, chat_template.c_str(), options);
    } catch (const UserError& error) {
        outcome.refusal = error.what();
        outcome.code = error.code();
    }
    return outcome;
}

TEST(TemplateBounds, ARowIsSkippedAndATemplateThatBreaksThemInThreeIsRefused) {
    const std::string hostile = hostile_to_long_chats();
    const SkippedRows two = read_skipping(kLong + "\n" + kShort + "\n" + kLong + "\n" + kShort, hostile);
    EXPECT_EQ(two.skipped, 2);
    EXPECT_EQ(two.refusal, "");
    const SkippedRows many = read_skipping(kLong + "\n" + kLong + "\n" + kShort + "\n" + kLong + "\n" + kLong, hostile);
    EXPECT_EQ(many.skipped, 2);
    EXPECT_EQ(many.code, ExitCode::model);
    EXPECT_THAT(many.refusal, AllOf(HasSubstr("t.jinja: the template broke its bounds in 3 rows"),
                                    HasSubstr("rows.jsonl:4: the chat template (t.jinja:1) cannot write this chat"),
                                    HasSubstr("bytes of values"), HasSubstr("Try: another template")));
}

// A row that a template refuses is at fault itself.
TEST(TemplateBounds, AreNotBrokenByRefusals) {
    const std::string refuses =
        std::string("{% if messages | length > 3 %}{{ raise_exception('no') }}{% endif %}") + kChatMl;
    const SkippedRows outcome = read_skipping(kLong + "\n" + kLong + "\n" + kLong + "\n" + kLong, refuses);
    EXPECT_EQ(outcome.skipped, 4);
    EXPECT_EQ(outcome.refusal, "");
}

TEST(TemplateBounds, ThatFewWordsBreakRefuseTheTemplate) {
    for (const std::string& source :
         {kBreaksItsBounds, "{% if tools %}" + kBreaksItsBounds + "{% endif %}" + kChatMl}) {
        try {
            const ChatFormat format({.place = "t.jinja", .text = source, .tool_use = ""}, fixtures::chat_model(), "");
            ADD_FAILURE() << source;
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::model);
            EXPECT_THAT(error.what(), HasSubstr("t.jinja: the template breaks its bounds with a chat of few words"));
        }
    }
}

// Not another rendering for each answer, where only the text before an answer breaks a bound.
TEST(TemplateBounds, EndAConversationAtTheFirstRendering) {
    const ChatFormat format({.place = "t.jinja",
                             .text = hostile_to_long_chats("add_generation_prompt and messages | length > 3"),
                             .tool_use = ""},
                            fixtures::chat_model(), "");
    Json messages = Json::array();
    for (int i = 0; i < 40; ++i)
        messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", fmt::format("m{}", i)}});
    const Chat chat = read_chat(Json{{"messages", messages}}.dump(), RowFormat::chat, {}, "row");
    std::vector<size_t> answers;
    for (size_t i = 1; i < chat.messages.size(); i += 2) answers.push_back(i);
    EXPECT_THROW(learnt_texts(chat, format, TrainTurns::assistant, answers, "row"), TemplateBound);
}

}  // namespace
}  // namespace windlass
