// Other members of each kind of trouble with rows: calls, flags, pairs, parts, and what is nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rows/jq_command.h"
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
using testing::Not;

std::string with_call(const std::string& calls) {
    return R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", )" + calls + "}]}";
}

TEST(RowMembers, CallsNeedANameAndTheirArguments) {
    for (const char* other : {"args", "parameters", "params", "input", "kwargs"})
        EXPECT_THAT(refused_row(with_call(fmt::format(
                                    R"("tool_calls": [{{"function": {{"name": "f", "{}": {{"a": 1}}}}}}])", other)),
                                kFullChatMl),
                    HasSubstr(fmt::format("\"{}\" in place of \"arguments\"", other)));
    for (const char* call : {R"({"tool_name": "f", "parameters": {"a": 1}})", R"({"name": 5, "arguments": {}})"})
        EXPECT_THAT(refused_row(with_call(fmt::format(R"("tool_calls": [{}])", call)), kFullChatMl),
                    HasSubstr("has no \"name\""))
            << call;
    for (const char* text : {R"("{'a': 1}")", R"("[1]")", R"("f 1")"})
        EXPECT_THAT(refused_row(with_call(fmt::format(R"("tool_calls": [{{"name": "f", "arguments": {}}}])", text)),
                                kFullChatMl),
                    HasSubstr("text that is not a JSON object"))
            << text;
    for (const char* none : {"null", R"("")", R"("null")", "{}"})
        EXPECT_THAT(
            read_them(with_call(fmt::format(R"("tool_calls": [{{"name": "f", "arguments": {}}}])", none)), kFullChatMl)
                .texts,
            ElementsAre(HasSubstr(R"({"name": "f", "arguments": {}})")))
            << none;
}

TEST(RowMembers, StructsOfNullsAreNothing) {
    const std::string plain = turn("user", "Q") + "<|im_start|>assistant\n[A<|im_end|>]\n";
    for (const char* nothing : {R"("function_call": {"name": null, "arguments": null})",
                                R"("tool_calls": [{"id": null, "function": {"name": null}}])", R"("tool_calls": "")",
                                R"("image": {"bytes": null, "path": null})", R"("images": [null])"}) {
        const auto out = read_them(
            fmt::format(
                R"({{"messages": [{{"role": "user", "content": "Q", {0}}}, {{"role": "assistant", "content": "A", {0}}}],
            "tools": [{{"type": null, "function": null}}], "chat_template_kwargs": {{"x": null, "y": []}}, "image": {{"bytes": null}}}})",
                nothing),
            kFullChatMl);
        EXPECT_THAT(out.texts, ElementsAre(plain)) << nothing;
    }
    EXPECT_THAT(
        read_them(R"({"system": [], "messages": [{"role": "user", "content": [null, {"type": "text", "text": "Q"}]},
                              {"role": "assistant", "content": "A", "meta": {"user-agent": null}}]})")
            .texts,
        ElementsAre(plain));
    EXPECT_THAT(
        read_them(
            R"({"messages": [{"role": "user", "content": "Q", "meta": {"agent": null}}, {"role": "assistant", "content": "A"}]})")
            .report.notes.lines(),
        IsEmpty());
    EXPECT_EQ(read_them(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": null}]})")
                  .report.dropped_empty,
              1);
}

TEST(RowMembers, FlagsOfMessagesHoldInPairsToo) {
    const auto out = read_them(
        R"({"chosen": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "x", "weight": 0},
        {"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "Q"},
        {"role": "assistant", "content": "y", "train": false}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]})",
        kChatMl, {.pairs = true});
    ASSERT_EQ(out.texts.size(), 2u);
    EXPECT_THAT(out.texts[0], AllOf(HasSubstr("[a<|im_end|>]"), HasSubstr("x<|im_end|>"), Not(HasSubstr("[x"))));
    EXPECT_THAT(out.texts[1], AllOf(HasSubstr("[b<|im_end|>]"), Not(HasSubstr("[y"))));
}

TEST(RowMembers, FlagsAndMediaOfMessages) {
    for (const char* said :
         {R"("masked": true)", R"("mask": 1)", R"("ignore": true)", R"("need_loss": 0)", R"("calculate_loss": false)",
          R"("loss_weight": 0)", R"("loss_scale": 0.0)", R"("label": false)"}) {
        const std::string row = fmt::format(
            R"({{"messages": [{{"role": "user", "content": "q"}}, {{"role": "assistant", "content": "a", {}}},
            {{"role": "user", "content": "r", "weight": 1}}, {{"role": "assistant", "content": "b"}}]}})",
            said);
        EXPECT_THAT(read_them(row).texts.at(0), AllOf(HasSubstr("[b<|im_end|>]"), Not(HasSubstr("[a")))) << said;
    }
    EXPECT_THAT(refused_row(R"({"messages": [{"role": "assistant", "content": "a", "masked": "x"}]})"),
                HasSubstr("\"masked\": 1 of an answer that is not trained"));
    for (const char* member :
         {R"("loss_weight": 0.5)", R"("loss_mask": [0, 1])", R"("image_path": "x")", R"("files": ["x"])",
          R"("input_audio": {"data": "x"})", R"("tool_calls": [{"name": "f", "arguments": {}}])"})
        EXPECT_NE(
            refused_row(fmt::format(
                R"({{"messages": [{{"role": "user", "content": "q", {}}}, {{"role": "assistant", "content": "a"}}]}})",
                member)),
            "read")
            << member;
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a", "train": false}, {"type": "text", "text": "b"}]}]})"),
        HasSubstr("a part that is not to be trained"));
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "assistant", "content": "a", "thinking": "x", "reasoning_content": "y"}]})"),
        HasSubstr("not the reasoning of another member"));
    EXPECT_THAT(
        refused_row(
            R"({"messages": [{"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": {}},
                               "tool_calls": [{"name": "g", "arguments": {}}]}]})"),
        HasSubstr("are not the same"));
    EXPECT_THAT(
        read_them(
            R"({"conversations": [{"from": "human", "value": "Q"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}",
                              "reasoning_content": "why"}]})",
            kFullChatMl)
            .texts,
        ElementsAre(HasSubstr("<think>why</think>")));
    EXPECT_THAT(
        read_them(
            R"({"messages": [{"role": "user", "from": "human", "value": "Q"}, {"role": "assistant", "content": "A"}]})")
            .texts,
        ElementsAre(HasSubstr("[A<|im_end|>]")));
}

TEST(RowMembers, KeysOfAPairThatAskAreInTheQuestion) {
    const RowsOptions pairs{.pairs = true};
    for (const char* row : {R"({"prompt": "a b", "input": "c", "chosen": "d", "rejected": "e"})",
                            R"({"prompt": "a b", "instruction": "c", "chosen": "d", "rejected": "e"})"})
        EXPECT_THAT(refused_row(row, nullptr, pairs), HasSubstr("say different things")) << row;
    for (const char* row :
         {R"({"prompt": [{"role": "user", "content": "a"}], "input": "c", "chosen": "d", "rejected": "e"})",
          R"({"messages": [{"role": "user", "content": "a"}], "input": "c", "chosen": "d", "rejected": "e"})",
          R"({"prompt": [{"role": "user", "content": "a"}], "history": [["x", "y"]], "chosen": "d", "rejected": "e"})"})
        EXPECT_NE(refused_row(row, kChatMl, pairs), "read") << row;
    EXPECT_NE(
        refused_row(
            R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}], "input": "c"})"),
        "read");
    EXPECT_NE(
        refused_row(
            R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "history": [["x", "y"]]})"),
        "read");
}

TEST(RowMembers, AQuestionIsNotMadeOfAnswersThatBeginAlike) {
    const RowsOptions pairs{.pairs = true};
    EXPECT_THAT(
        refused_row(
            R"({"input": "Capital of France?", "chosen": "The capital is Paris", "rejected": "The capital is Rome"})",
            nullptr, pairs),
        AllOf(HasSubstr("the row has \"input\""), HasSubstr("prompt_field: input")));
    EXPECT_THAT(
        refused_row(
            R"({"question": "q", "chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: c"})",
            nullptr, pairs),
        HasSubstr("prompt_field: question"));
    EXPECT_THAT(refused_row(R"({"messages": [{"role": "assistant", "content": "d"}], "chosen": "d", "rejected": "e"})",
                            kChatMl, pairs),
                HasSubstr("the answers have no question"));
    EXPECT_NE(refused_row(R"({"chosen": "The capital is Paris", "rejected": "The capital is Rome"})", nullptr, pairs),
              "read");
    EXPECT_THAT(refused_row(R"({"chosen": "same text", "rejected": "same text"})", nullptr, pairs),
                HasSubstr("are the same text"));
    EXPECT_THAT(
        read_them(
            R"({"chosen": "\n\nHuman: Q\n\nAssistant: Yes", "rejected": "\n\nHuman: Q\n\nAssistant: Yes, it is"})",
            nullptr, pairs)
            .texts,
        ElementsAre("<s>\n\nHuman: Q\n\nAssistant:[ Yes</s>]", "<s>\n\nHuman: Q\n\nAssistant:[ Yes, it is</s>]"));
    EXPECT_EQ(
        read_them(R"({"chosen": [{"role": "user", "content": "q", "id": 1}, {"role": "assistant", "content": "a"}],
                            "rejected": [{"role": "user", "content": "q", "id": 2}, {"role": "assistant", "content": "b"}]})",
                  kChatMl, pairs)
            .texts.size(),
        2u);
}

// Its reasoning is trained where the text parts from the prompt.
TEST(RowMembers, ReasoningUnderEachNameIsTrained) {
    constexpr const char* kAsksToThink =
        "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
        "{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
    for (const char* name : {"reasoning_content", "reasoning", "thinking"})
        EXPECT_THAT(
            read_them(
                fmt::format(
                    R"({{"messages": [{{"role": "user", "content": "Q"}}, {{"role": "assistant", "content": "A", "{}": "why"}}]}})",
                    name),
                kAsksToThink)
                .texts,
            ElementsAre(HasSubstr("[(why)A</s>]")))
            << name;
}

TEST(RowMembers, ACompletionMayRepeatThePrompt) {
    const std::string q = R"({"role": "user", "content": "Q"})", a = R"({"role": "assistant", "content": "A"})";
    EXPECT_THAT(read_them(fmt::format(R"({{"prompt": [{0}], "completion": [{0}, {1}]}})", q, a)).texts,
                ElementsAre(turn("user", "Q") + "<|im_start|>assistant\n[A<|im_end|>]\n"));
    EXPECT_NE(refused_row(
                  fmt::format(R"({{"prompt": [{0}], "completion": [{{"role": "user", "content": "R"}}, {1}]}})", q, a)),
              "read");
}

TEST(RowMembers, AnswersOfWhiteSpaceAreEmpty) {
    EXPECT_EQ(read_them(R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": " \n"}]})")
                  .report.dropped_empty,
              1);
    EXPECT_EQ(read_them(R"({"prompt": "a", "completion": " "})", nullptr).report.dropped_empty, 1);
}

TEST(RowMembers, TheSystemMessageHasTwoNames) {
    EXPECT_THAT(
        read_them(
            R"({"system_prompt": "S", "messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]})")
            .texts,
        ElementsAre(HasSubstr(turn("system", "S"))));
    EXPECT_NE(refused_row(R"({"system_prompt": "S", "prompt": "q", "completion": "a"})"), "read");
    EXPECT_THAT(refused_row(R"({"instruction": "q", "context": "c", "output": "a"})"),
                HasSubstr("input_field: context"));
    EXPECT_THAT(refused_row(R"({"text": "a", "train": false})"), HasSubstr("select(.train != false)"));
}

TEST(RowMembers, WhatTheTemplateLeavesOutOfOtherTurns) {
    constexpr const char* kNoTools =
        "{% for m in messages if m.role != 'tool' %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    EXPECT_THAT(
        read_them(
            R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {}}]},
                              {"role": "tool", "content": "result"}, {"role": "assistant", "content": "A"}]})",
            kNoTools)
            .report.notes.lines(),
        ElementsAre(HasSubstr("leaves out tool messages")));
    // Each answer has a text of its own, and the second one has the system message.
    constexpr const char* kForgets =
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' and not loop.last %}"
        "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const auto out = read_them(
        R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "<think>a</think>One."},
        {"role": "system", "content": "BE RUDE"}, {"role": "user", "content": "R"}, {"role": "assistant", "content": "Two."}, {"role": "user", "content": "S"}]})",
        kForgets);
    EXPECT_EQ(out.texts.size(), 2u);
    EXPECT_THAT(out.report.notes.lines(), IsEmpty());
}

// Its tool message ends otherwise where it is the last.
TEST(RowMembers, AnAnswerAfterAToolMessageIsFoundByItsContent) {
    constexpr const char* kClosesLast =
        "{% for m in messages %}{% if m.role == 'tool' %}<r>{{ m.content }}</r>{{ '\n' if not loop.last }}"
        "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | "
        "tojson }}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const auto out = read_them(
        R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {}}]},
                              {"role": "tool", "content": "r"}, {"role": "assistant", "content": "A"}]})",
        kClosesLast);
    EXPECT_THAT(out.texts,
                ElementsAre(AllOf(HasSubstr("assistant\n[{\"name\""), HasSubstr("assistant\n[A<|im_end|>]"))));
}

// Searches go on from where the last one ended.
TEST(RowMembers, LongArgumentsTakeTimeThatGrowsWithThem) {
    std::string list;
    for (int i = 0; i < 60000; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", 100000 + i);
    EXPECT_EQ(read_them(with_call(R"("tool_calls": [{"name": "f", "arguments": {"a": [)" + list + "]}}]"), kFullChatMl)
                  .texts.size(),
              1u);
}

TEST(JqCommand, ReadsFilesOfEachKind) {
    EXPECT_EQ(jq_command("a.jsonl:3", "del(.x)"), "jq -c 'del(.x)' a.jsonl > NEW.jsonl");
    EXPECT_EQ(jq_command("my rows.json:3: message 2", "del(.x)"), "jq -c '.[] | del(.x)' 'my rows.json' > NEW.jsonl");
    EXPECT_EQ(jq_command("a.jsonl.gz:3", "del(.x)"), "gzip -dc a.jsonl.gz | jq -c 'del(.x)' > NEW.jsonl");
    EXPECT_EQ(jq_command("a:b.json.zst:3", "."), "zstd -dc a:b.json.zst | jq -c '.[] | .' > NEW.jsonl");
    EXPECT_THAT(jq_command("a.csv:3", "del(.x)"), HasSubstr("the rows as .jsonl"));
    EXPECT_THAT(finite_command("a.json.gz:3"),
                HasSubstr("gzip -dc a.json.gz | python3 -c 'import json, sys; json.dump("));
    EXPECT_EQ(jq_member("x_1"), ".x_1");
    EXPECT_EQ(jq_member("a b\""), R"(.["a b\""])");
}

// 2^53 + 1 is the first that a double does not hold.
TEST(JqCommand, SaysWhatOlderOnesDoToLongNumbers) {
    const auto refused = [](const std::string& more) {
        return refused_row(R"({"text": "a", "train": false, "n": )" + more + "}");
    };
    for (const char* whole : {"9007199254740993", "-9007199254740993", "[12345678901234567]"})
        EXPECT_THAT(refused(whole), HasSubstr("jq -c 'select(.train != false)' ")) << whole;
    for (const char* whole : {"9007199254740993", "-9007199254740993", "[12345678901234567]"})
        EXPECT_THAT(refused(whole), HasSubstr("jq 1.7, as earlier ones round")) << whole;
    for (const char* other :
         {"9007199254740992", "0.12345678901234567", R"("12345678901234567")", R"("\"12345678901234567")"})
        EXPECT_THAT(refused(other), Not(HasSubstr("jq 1.7"))) << other;
}

}  // namespace
}  // namespace windlass
