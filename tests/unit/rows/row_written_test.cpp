// What a row gives is found in what the template writes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using fixtures::kChatMl;
using fixtures::kFullChatMl;
using fixtures::read_them;
using fixtures::ReadRows;
using fixtures::refused_row;
using fixtures::turn;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(RowWritten, NullMembersOfCallsAreLeftOutAndRealOnesStay) {
    const auto text = [](const std::string& arguments, const std::string& rest = "") {
        const std::string row =
            R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": null,
            "tool_calls": [{"id": null, "type": "function", "function": {"name": "f", "arguments": )" +
            arguments + "}}]}]" + rest + "}";
        return read_them(
            row,
            "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for "
            "c in m.tool_calls or [] %}"
            "{{ c | tojson }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>"
            "assistant\n{% endif %}");
    };
    EXPECT_THAT(text(R"({"a": "x", "b": null})").texts[0], HasSubstr(R"("arguments": {"a": "x"}}})"));
    EXPECT_THAT(text(R"({"a": {"c": null, "d": [{"e": null}]}})").texts[0], HasSubstr(R"({"a": {"d": [{}]}})"));
    EXPECT_THAT(text("null").texts[0], HasSubstr(R"("arguments": {})"));
    EXPECT_THAT(text(R"({"b": null})").report.notes.lines(), ElementsAre(HasSubstr("null members of calls and tools")));
    EXPECT_THAT(text(R"("{\"a\": \"x\", \"b\": null}")").texts[0], HasSubstr(R"("b": null)"))
        << "text has real ones alone";
    for (const char* schema : {R"("type": ["string", "null"])", R"("nullable": true)", R"("anyOf": [{"type": "null"}])",
                               R"("enum": ["a", null])", R"("default": null)"}) {
        const std::string tools = fmt::format(
            R"(, "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {{"properties": {{"b": {{{}}}}}}}}}}}])",
            schema);
        EXPECT_THAT(text(R"({"b": null, "c": null})", tools).texts[0], HasSubstr(R"("arguments": {"b": null}})"))
            << schema;
    }
    const ReadRows schema =
        text(R"({"a": 1})", R"(, "tools": [{"type": "function", "function": {"name": "f", "description": null,
        "parameters": {"properties": {"a": {"type": "integer", "default": null}, "z": {"default": null, "items": null}, "n": null}}}}])");
    EXPECT_THAT(
        schema.texts[0],
        HasSubstr(
            R"({"name": "f", "parameters": {"properties": {"a": {"type": "integer", "default": null}, "z": {}}}})"));
}

TEST(RowWritten, WholeNumbersKeepTheirDigits) {
    const auto text = [](const char* arguments) {
        return read_them(fmt::format(
                             R"({{"messages": [{{"role": "user", "content": "Q"}}, {{"role": "assistant", "content": "",
            "tool_calls": [{{"function": {{"name": "send", "arguments": {}}}}}]}}]}})",
                             arguments),
                         kFullChatMl)
            .texts[0];
    };
    for (const char* number : {"123456789012345678901234567890", "-99999999999999999999", "18446744073709551615",
                               "9223372036854775807", "-9223372036854775808", "1"})
        for (const std::string& arguments :
             {fmt::format(R"({{"wei": {}}})", number), fmt::format(R"("{{\"wei\": {}}}")", number)})
            EXPECT_THAT(text(arguments.c_str()), HasSubstr(fmt::format(R"({{"wei": {}}}}}<|im_end|>)", number)))
                << arguments;
    EXPECT_THAT(text(R"({"x": 1.50})"), HasSubstr(R"({"x": 1.5})"));
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "user", "content": "Q", "n": 18446744073709551616}, {"role": "assistant", "content": "a"}]})",
            "{% for m in messages %}{{ m.n + 1 if m.n }}{{ m.content }}<|im_end|>{% endfor %}"),
        HasSubstr("int"));
}

constexpr const char* kCallRow = R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "",
    "tool_calls": [{"function": {"name": "fetch", "arguments": {"page": 1}}}]}, {"role": "tool", "content": "r"},
    {"role": "assistant", "content": "d"}]})";

TEST(RowWritten, AnAnswerOfWhichNothingIsWrittenIsRefused) {
    EXPECT_THAT(refused_row(kCallRow),
                AllOf(HasSubstr("message 2: the template (t.jinja) writes nothing of this answer (tool_calls)"),
                      HasSubstr("\"train\": false")));
    EXPECT_EQ(read_them(kCallRow, kFullChatMl).report.notes.lines(), std::vector<std::string>());
    EXPECT_THAT(
        refused_row(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "words"}]})",
                    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content if m.role == 'user' "
                    "}}<|im_end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
        HasSubstr("writes nothing of this answer (content)"));
}

TEST(RowWritten, WhatTheTemplateLeavesOutIsNoted) {
    const auto lines = [](const std::string& row, const char* chat_template = kChatMl) {
        return read_them(row + "\n" + row, chat_template).report.notes.lines();
    };
    EXPECT_THAT(
        lines(
            R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a", "reasoning_content": "why"}]})"),
        ElementsAre(AllOf(HasSubstr("leaves out reasoning_content that rows have (2 rows, the first "),
                          HasSubstr("rows.jsonl:1"))));
    EXPECT_THAT(
        lines(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a", "tool_calls":
                     [{"function": {"name": "fetch", "arguments": {}}}]}]})"),
        ElementsAre(HasSubstr("leaves out tool_calls")));
    EXPECT_THAT(lines(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "a"}],
                     "tools": [{"name": "fetch"}]})"),
                ElementsAre(HasSubstr("leaves out tools")));
    EXPECT_THAT(
        lines(R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"},
                     {"role": "assistant", "content": "a"}]})",
              "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
              "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
        ElementsAre(HasSubstr("leaves out system message")));
    EXPECT_THAT(
        lines(
            R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": " <think>a</think>\n\nb \"c\" "}]})",
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] | trim }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
        ElementsAre(HasSubstr("leaves out content")));
    // Spelled otherwise, but all of it.
    EXPECT_THAT(
        lines(
            R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "  a\n\"b\"\n"}]})",
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ (m.content | trim) | tojson }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
        IsEmpty());
}

// The words of a message that is left out are in another one.
TEST(RowWritten, EachMessageIsFoundInAPlaceOfItsOwn) {
    constexpr const char* kDropsSystem =
        "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in "
        "(m.tool_calls or [])[:1] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const auto lines = [](const std::string& messages, const char* chat_template) {
        return read_them(R"({"messages": [)" + messages + "]}", chat_template).report.notes.lines();
    };
    const std::string system = R"({"role": "system", "content": "Be brief."}, )",
                      answer = R"(, {"role": "assistant", "content": "A"})";
    for (const char* question : {R"({"role": "user", "content": "Be brief. What is it?"})",
                                 R"({"role": "user", "content": "I say: Be  brief."})"}) {
        EXPECT_THAT(lines(system + question + answer, kDropsSystem),
                    ElementsAre(HasSubstr("leaves out system messages")))
            << question;
        EXPECT_THAT(lines(question + (", " + system) + R"({"role": "user", "content": "R"})" + answer, kDropsSystem),
                    ElementsAre(HasSubstr("leaves out system messages")))
            << question;
        EXPECT_THAT(lines(system + question + answer, kChatMl), IsEmpty()) << question;
    }
    // Which of two equal ones is written cannot be said.
    EXPECT_THAT(lines(system + R"({"role": "user", "content": "Be brief."})" + answer, kDropsSystem),
                ElementsAre(HasSubstr("leaves out ")));
    // A template may write them in another order.
    constexpr const char* kSystemLast =
        "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ messages[0].content + '\n\n' if "
        "m.role == 'user' and loop.index0 == 2 }}{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    EXPECT_THAT(
        lines(
            system +
                R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": "R"})" +
                answer,
            kSystemLast),
        IsEmpty());
    // Of an answer, its content is not found in its reasoning, nor a call in an equal one.
    EXPECT_THAT(
        lines(
            R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "4", "reasoning_content": "2 + 2 is 4, so 4"})",
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.reasoning_content or m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
        ElementsAre(HasSubstr("leaves out content")));
    const std::string call = R"({"name": "fetch", "arguments": {"page": 1}})";
    EXPECT_THAT(lines(R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": [)" +
                          call + ", " + call + "]}",
                      kDropsSystem),
                ElementsAre(HasSubstr("leaves out tool_calls")));
}

TEST(RowWritten, AnEmptyAnswerIsNotTrained) {
    const ReadRows out =
        read_them(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]})"
                  "\n"
                  R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""},
                                 {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]})");
    EXPECT_EQ(out.report.dropped_empty, 1);
    EXPECT_THAT(out.texts, ElementsAre(turn("user", "a") + turn("assistant", "") + turn("user", "b") +
                                       "<|im_start|>assistant\n[c<|im_end|>]\n"));
}

// Its template reads messages[0], as Qwen's does.
TEST(RowWritten, AConversationMayBeginWithTheAssistant) {
    constexpr const char* kReadsFirst =
        "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{% endif %}{% for m in messages "
        "%}<|im_start|>"
        "{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% "
        "endif %}";
    EXPECT_THAT(read_them(R"({"messages": [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Q"},
                         {"role": "assistant", "content": "A"}]})",
                          kReadsFirst)
                    .texts,
                ElementsAre("<|im_start|>assistant\n[Hi<|im_end|>]\n" + turn("user", "Q") +
                            "<|im_start|>assistant\n[A<|im_end|>]\n"));
}

TEST(RowWritten, MessagesSayInManyWaysThatTheyAreNotTrained) {
    for (const char* said : {R"("train": false)", R"("weight": 0)", R"("loss": false)", R"("loss": 0)",
                             R"("training": false)", R"("trainable": false)"}) {
        const std::string row = fmt::format(
            R"({{"messages": [{{"role": "user", "content": "q"}}, {{"role": "assistant", "content": "a", {}}},
            {{"role": "user", "content": "r"}}, {{"role": "assistant", "content": "b"}}]}})",
            said);
        EXPECT_THAT(read_them(row).texts.at(0), AllOf(HasSubstr("[b<|im_end|>]"), Not(HasSubstr("[a")))) << said;
    }
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "assistant", "content": "a", "train_detail": [{"begin_offset": 0, "train": false}]}]})"),
        HasSubstr("trained whole or not at all"));
    EXPECT_THAT(refused_row(R"({"messages": [{"role": "assistant", "content": "a", "train": true, "weight": 0}]})"),
                HasSubstr("contradicts"));
    EXPECT_THAT(read_them(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null,
                         "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}]})",
                          kFullChatMl)
                    .texts[0],
                HasSubstr(R"([{"name": "f", "arguments": {"x": 1}}<|im_end|>])"));
}

}  // namespace
}  // namespace windlass
