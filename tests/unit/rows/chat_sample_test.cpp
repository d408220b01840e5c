#include "rows/chat_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/unit/rows/chats.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using fixtures::chat_tokenizer;
using fixtures::kChatMl;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kMarked =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] }}<|im_end|>\n{% endgeneration %}"
    "{% else %}{{ m['content'] }}<|im_end|>\n{% endif %}{% endfor %}";
// The prompt of an answer ends in a mark that no answer has.
constexpr const char* kThinkPrompt =
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% if m['role'] == 'assistant' %}</s>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}";
// Thoughts stay in the last turn alone.
constexpr const char* kForgetsThoughts =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' and not loop.last %}"
    "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// A turn is ended by the mark of the next role.
constexpr const char* kNextRoleEnds =
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "a1"},
                     {"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2"}]})";

struct Made {
    std::vector<std::string> texts;  // of each sample, what is learned between [ and ]
    std::vector<Sample> samples;
    RowNotes notes;
};

Made make(const char* text, std::string_view row, TrainTurns turns = TrainTurns::assistant,
          const Tokenizer& tokenizer = chat_tokenizer(), bool add_eos = true) {
    const ChatFormat format({.place = "t.jinja", .text = text, .tool_use = ""}, tokenizer, "2026-01-31");
    Made made;
    made.samples = chat_samples(read_chat(row, RowFormat::chat, {}, "row"), format, turns, add_eos, "row", made.notes);
    for (const Sample& sample : made.samples) made.texts.push_back(fixtures::shown(sample, tokenizer));
    return made;
}

std::string refused_chat(const char* text, std::string_view row, const Tokenizer& tokenizer = chat_tokenizer()) {
    try {
        make(text, row, TrainTurns::assistant, tokenizer);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        return error.what();
    }
    return "read";
}

TEST(ChatSample, AnswersAreLearnedWithTheTokenThatEndsThem) {
    EXPECT_THAT(make(kChatMl, kTwoTurns).texts,
                ElementsAre("<|im_start|>user\nq1<|im_end|>\n<|im_start|>assistant\n[a1<|im_end|>]\n"
                            "<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n[a2<|im_end|>]\n"));
}

TEST(ChatSample, MarksOfTheTemplateSayTheSame) {
    EXPECT_EQ(make(kMarked, kTwoTurns).texts, make(kChatMl, kTwoTurns).texts);
}

TEST(ChatSample, TheLastAnswerAlone) {
    EXPECT_THAT(
        make(kChatMl, kTwoTurns, TrainTurns::last).texts,
        ElementsAre(HasSubstr("assistant\na1<|im_end|>\n<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n[a2")));
}

TEST(ChatSample, EverythingButWhatTheRowExcludes) {
    EXPECT_THAT(
        make(kChatMl, R"({"messages": [{"role": "user", "content": "q"},
                                               {"role": "assistant", "content": "a", "train": false},
                                               {"role": "user", "content": "r"}]})",
             TrainTurns::all)
            .texts,
        ElementsAre(
            "<|im_start|>[user\nq<|im_end|>\n]<|im_start|>assistant\na<|im_end|>\n[<|im_start|>user\nr<|im_end|>\n]"));
}

TEST(ChatSample, MessagesThatAreNotToBeLearned) {
    const auto made = make(kMarked, R"({"messages": [{"role": "user", "content": "q1"},
        {"role": "assistant", "content": "a1", "train": false}, {"role": "user", "content": "q2"},
        {"role": "assistant", "content": "a2", "weight": 1}]})");
    EXPECT_THAT(made.texts, ElementsAre(HasSubstr("assistant\na1<|im_end|>\n<|im_start|>user")));
    EXPECT_THAT(made.texts, ElementsAre(HasSubstr("[a2<|im_end|>]")));
}

TEST(ChatSample, APromptThatNoAnswerHasPartsWhereTheTextsPart) {
    EXPECT_THAT(make(kThinkPrompt, kTwoTurns).texts,
                ElementsAre("<|user|>q1<|assistant|>[a1</s>]<|user|>q2<|assistant|>[a2</s>]"));
}

TEST(ChatSample, TurnsThatAreWrittenOtherwiseLaterAreSamplesOfTheirOwn) {
    const auto made = make(kForgetsThoughts,
                           R"({"messages": [{"role": "user", "content": "q1"},
                               {"role": "assistant", "content": "t1</think>a1"}, {"role": "user", "content": "q2"},
                               {"role": "assistant", "content": "t2</think>a2"}]})");
    EXPECT_THAT(made.texts,
                ElementsAre("<|im_start|>user\nq1<|im_end|>\n<|im_start|>assistant\n[t1</think>a1<|im_end|>]\n",
                            "<|im_start|>user\nq1<|im_end|>\n<|im_start|>assistant\na1<|im_end|>\n"
                            "<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n[t2</think>a2<|im_end|>]\n"));
}

TEST(ChatSample, TheMarkOfTheNextRoleEndsATurn) {
    const Tokenizer tokenizer = chat_tokenizer({{"eos_token_id", {257, 264}}});
    EXPECT_THAT(make(kNextRoleEnds, kTwoTurns, TrainTurns::assistant, tokenizer).texts,
                ElementsAre("<|user|>q1<|assistant|>[a1<|user|>]q2<|assistant|>[a2<|user|>]"));
}

TEST(ChatSample, AnAnswerThatNothingEndsIsRefused) {
    EXPECT_THAT(
        refused_chat("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
                     "{% if add_generation_prompt %}assistant: {% endif %}",
                     kTwoTurns),
        AllOf(HasSubstr("row: message 2: the template (t.jinja) ends this answer by no token"), HasSubstr("Try: ")));
}

TEST(ChatSample, TheTemplatesOwnEndIsFoundWhereTheFilesNameAnother) {
    const Tokenizer tokenizer = chat_tokenizer({{"eos_token_id", 257}});
    const ChatFormat format({.place = "t.jinja", .text = kChatMl, .tool_use = ""}, tokenizer, "2026-01-31");
    EXPECT_EQ(format.answer_end(), 263);
    EXPECT_THAT(format.turn_ends(), ElementsAre(257, 263));
    EXPECT_EQ(make(kChatMl, kTwoTurns, TrainTurns::assistant, tokenizer).texts, make(kChatMl, kTwoTurns).texts);
}

TEST(ChatSample, NothingToLearnIsAnError) {
    EXPECT_THAT(refused_chat(kChatMl, R"({"messages": [{"role": "user", "content": "q"}]})"),
                HasSubstr("row: no message is an assistant's"));
    EXPECT_THAT(refused_chat(kChatMl, R"({"messages": [{"role": "user", "content": "q"},
                                                     {"role": "assistant", "content": "a", "train": false}]})"),
                HasSubstr("none of the answers may be learned"));
}

TEST(ChatSample, WhatTheTemplateRefusesIsSaid) {
    EXPECT_THAT(refused_chat("{{ raise_exception('roles must alternate') }}", kTwoTurns),
                HasSubstr("roles must alternate"));
}

TEST(Chat, ReadsShareGptToolsAndSystem) {
    const Chat chat = read_chat(R"({"conversations": [{"from": "human", "value": "q"},
        {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
        {"from": "observation", "value": "2"}, {"from": "gpt", "value": "a"}],
        "system": "s", "tools": "[{\"name\": \"f\"}]"})",
                                RowFormat::chat, {}, "row");
    EXPECT_EQ(
        chat.messages.dump(),
        R"([{"role":"system","content":"s"},{"role":"user","content":"q"},)"
        R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
        R"({"role":"tool","content":"2"},{"role":"assistant","content":"a"}])");
    EXPECT_EQ(chat.tools.dump(), R"([{"type":"function","function":{"name":"f"}}])");
}

TEST(Chat, ReadsOpenAisCallsAndParts) {
    const Chat chat = read_chat(
        R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}]})",
        RowFormat::chat, {}, "row");
    EXPECT_EQ(chat.messages[0]["content"], "ab");
    EXPECT_EQ(chat.messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"x":1})");
    EXPECT_FALSE(chat.messages[1].contains("content")) << "null, of which templates would write None";
}

TEST(Chat, ReadsPromptAndCompletionAsLists) {
    const Chat chat = read_chat(
        R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "r"}],
                                    "completion": [{"role": "assistant", "content": "a"}]})",
        RowFormat::chat, {}, "row");
    EXPECT_EQ(chat.messages.size(), 4u);
    EXPECT_THAT(chat.may_be_learnt, ElementsAre(0, 0, 0, 1));
}

TEST(Chat, ReadsAlpacaWithSystemAndHistory) {
    const Chat chat =
        read_chat(R"({"instruction": "i", "input": "n", "output": "o", "system": "s", "history": [["q", "a"]]})",
                  RowFormat::alpaca, {}, "row");
    EXPECT_EQ(chat.messages.dump(),
              R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"},)"
              R"({"role":"user","content":"i\nn"},{"role":"assistant","content":"o"}])");
}

struct BadChat {
    const char* row;
    const char* said;
};

class BadChats : public testing::TestWithParam<BadChat> {};

TEST_P(BadChats, IsRefusedByMessage) {
    try {
        read_chat(GetParam().row, RowFormat::chat, {}, "rows.jsonl:7");
        FAIL() << GetParam().row;
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("rows.jsonl:7"), HasSubstr(GetParam().said)));
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadChats,
    testing::Values(
        BadChat{R"({"messages": {}})", "\"messages\" is object and not a list"},
        BadChat{R"({"messages": []})", "the conversation has no message"},
        BadChat{R"({"messages": ["hi"]})", "message 1: is string and not an object"},
        BadChat{R"({"messages": [{"content": "hi"}]})", "message 1: has neither \"role\" nor \"from\""},
        BadChat{R"({"messages": [{"role": "usr", "content": "hi"}]})", "message 1: there is no role \"usr\""},
        BadChat{R"({"messages": [{"role": "user"}]})", "message 1: has neither \"content\" nor \"value\""},
        BadChat{R"({"messages": [{"role": 3, "content": "hi"}]})", "\"role\" is number and not a string"},
        BadChat{R"({"messages": [{"role": "user", "content": "hi", "train": "no"}]})",
                "\"train\" is not true or false"},
        BadChat{R"({"messages": [{"role": "user", "content": "hi", "train": true}]})", "that no model writes"},
        BadChat{R"({"messages": [{"role": "assistant", "content": "hi", "weight": 2}]})", "neither 0 nor 1"},
        BadChat{R"({"messages": [{"role": "user", "content": "hi"}], "tools": {"a": 1}})", "\"tools\" is object"},
        BadChat{R"({"messages": [{"role": "user", "content": "hi"}], "tools": ["f"]})", "a tool is string"},
        BadChat{R"({"conversations": [{"from": "function_call", "value": "f x"}]})", "message 1"},
        BadChat{R"({"messages": [{"role": "assistant", "content": "", "tool_calls": ["f"]}]})",
                "a tool call is string"}));

TEST(Chat, HasABoundedNumberOfMessages) {
    Json row = {{"messages", Json::array()}};
    for (size_t i = 0; i < kChatMessagesMax + 1; ++i) row["messages"].push_back({{"role", "user"}, {"content", "q"}});
    EXPECT_THROW(read_chat(row.dump(), RowFormat::chat, {}, "row"), UserError);
}

}  // namespace
}  // namespace windlass
