// What a row gives its template besides the conversation, and members of messages that it does not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using fixtures::kChatMl;
using fixtures::kFullChatMl;
using fixtures::read_them;
using fixtures::refused_row;
using fixtures::turn;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Its thoughts can be switched off, and it writes who the user is.
constexpr const char* kThinks =
    "{% if instructions %}{{ instructions }}\n{% endif %}{% for d in documents or [] %}({{ d.text }}){% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}{{ ' ' + m.name if m.name }}\n"
    "{% if m.role == 'assistant' and enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}";

std::string row_with(const std::string& members) {
    return R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}], )" + members +
           "}";
}

TEST(RowVariables, TheTemplateSeesThem) {
    const std::string plain = turn("user", "Q") + "<|im_start|>assistant\n[A<|im_end|>]\n",
                      off = turn("user", "Q") + "<|im_start|>assistant\n<think></think>[A<|im_end|>]\n";
    const auto text = [](const char* members) { return read_them(row_with(members), kThinks).texts.at(0); };
    EXPECT_EQ(text(R"("chat_template_kwargs": {"enable_thinking": false})"), off);
    EXPECT_EQ(text(R"("chat_template_kwargs": {"enable_thinking": true})"), plain);
    EXPECT_EQ(text(R"("chat_template_kwargs": {"enable_thinking": null, "instructions": null})"), plain);
    EXPECT_EQ(text(R"("chat_template_kwargs": {"enable_thinking": null, "instructions": "Be brief."})"),
              "Be brief.\n" + plain);
    EXPECT_EQ(text(R"("chat_template_kwargs": {"instructions": "Be brief."})"), "Be brief.\n" + plain);
    EXPECT_EQ(text(R"("chat_template_kwargs": {"documents": [{"text": "D"}]})"), "(D)" + plain);
    EXPECT_EQ(text(R"("chat_template_kwargs": {})"), plain);
}

TEST(RowVariables, PairsAndAlpacasRowsHaveThemToo) {
    const auto pair = read_them(
        R"({"prompt": [{"role": "user", "content": "Q"}], "chosen": "A", "rejected": "B", "chat_template_kwargs": {"enable_thinking": false}})",
        kThinks, {.pairs = true});
    EXPECT_THAT(pair.texts, ElementsAre(HasSubstr("<think></think>[A"), HasSubstr("<think></think>[B")));
    const char* const alpaca =
        R"({"instruction": "Q", "output": "A", "chat_template_kwargs": {"enable_thinking": false}})";
    EXPECT_THAT(read_them(alpaca, kThinks).texts, ElementsAre(HasSubstr("<think></think>[A")));
    EXPECT_THAT(refused_row(alpaca, nullptr), HasSubstr("has no place"));
}

TEST(RowVariables, ArgumentsThatAreNoVariablesAreRefused) {
    for (const char* argument : {R"("add_generation_prompt": true)", R"("tokenize": false)", R"("chat_template": "x")"})
        EXPECT_THAT(
            refused_row(row_with(fmt::format(R"("chat_template_kwargs": {{{}}})", argument)), kThinks),
            AllOf(HasSubstr("which is no variable of a template"), HasSubstr("jq -c 'del(.chat_template_kwargs.")));
    EXPECT_THAT(refused_row(row_with(R"("chat_template_kwargs": {"tools": [{"name": "f"}]})"), kThinks),
                HasSubstr("'.tools = .chat_template_kwargs.tools | del(.chat_template_kwargs.tools)'"));
    EXPECT_THAT(refused_row(row_with(R"("chat_template_kwargs": "x")"), kThinks), HasSubstr("is string and not an"));
    EXPECT_THAT(refused_row(row_with(R"("enable_thinking": false)"), kThinks),
                HasSubstr("'.chat_template_kwargs.enable_thinking = .enable_thinking | del(.enable_thinking)'"));
}

TEST(RowVariables, WhatTheTemplateDoesNotReadIsListed) {
    const auto unread = [](const std::string& row, const char* chat_template) {
        return read_them(row, chat_template).report.notes.unread_keys();
    };
    const std::string row = row_with(R"("chat_template_kwargs": {"enable_thinking": false, "mood": "x", "tone": ""})");
    EXPECT_THAT(unread(row, kThinks), ElementsAre(Pair("chat_template_kwargs.mood", 1)));
    const std::string named =
        R"({"messages": [{"role": "user", "name": "Ann", "content": "Q", "foo": 1, "id": "7", "foe": null},
                         {"role": "assistant", "content": "A", "foo": 2}]})";
    EXPECT_THAT(unread(named + "\n" + named, kThinks), ElementsAre(Pair("messages[].foo", 2)));
    EXPECT_THAT(unread(named, kChatMl), ElementsAre(Pair("messages[].foo", 1), Pair("messages[].name", 1)));
    constexpr const char* kWhole =
        "{% for m in messages %}<|im_start|>{{ m | tojson }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{% endif %}";
    EXPECT_THAT(unread(named, kWhole), IsEmpty());
}

TEST(RowVariables, NumbersThatAreNotFiniteCountWhereTheyAreRead) {
    for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
        const std::string score = fmt::format(R"("score": {0}, "other": [{0}, "say \"NaN\""])", number);
        EXPECT_EQ(read_them(row_with(score)).texts.size(), 1u) << number;
        EXPECT_EQ(read_them(fmt::format(R"({{"text": "a NaN b", {}}})", score), nullptr).texts.at(0),
                  "<s>[a NaN b</s>]")
            << number;
        for (const std::string& row :
             {fmt::format(R"({{"text": {}}})", number), fmt::format(R"({{"prompt": "q", "completion": {}}})", number),
              fmt::format(R"({{"instruction": "q", "input": {}, "output": "a"}})", number),
              row_with(fmt::format(R"("system": {})", number)), row_with(fmt::format(R"("weight": {})", number)),
              row_with(fmt::format(R"("tools": [{{"name": "f", "default": {}}}])", number)),
              row_with(fmt::format(R"("chat_template_kwargs": {{"x": {}}})", number))})
            EXPECT_THAT(refused_row(row, kFullChatMl),
                        AllOf(HasSubstr("which JSON has no word for"), HasSubstr("python3 -c '")))
                << row;
    }
    const auto in_call = [](const char* value) {
        return fmt::format(R"({{"messages": [{{"role": "user", "content": "Q", "mood": {0}, "name": "x"}},
            {{"role": "assistant", "content": "", "tool_calls": [{{"name": "f", "arguments": {{"x": {1}}}}}]}}]}})",
                           "NaN", value);
    };
    EXPECT_EQ(read_them(in_call("1"), kFullChatMl).texts.size(), 1u);
    EXPECT_THAT(refused_row(in_call("NaN"), kFullChatMl), HasSubstr("\"tool_calls\" holds NaN"));
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "user", "content": "Q", "name": NaN}, {"role": "assistant", "content": "A"}]})",
            kThinks),
        HasSubstr("\"name\" holds NaN"));
    EXPECT_THAT(refused_row(R"({"text": "a", "score": NaN, "b": nan})", nullptr),
                HasSubstr("not valid JSON at byte 24"));
    EXPECT_THAT(refused_row(R"({"text": "a", "score": NaN)", nullptr), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace windlass
