// Calls in the form that the template takes: arguments as an object or as text, and content that is null.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

using fixtures::kChatMl;
using fixtures::kFullChatMl;
using fixtures::read_them;
using fixtures::refused_row;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// As DeepSeek's: text is joined to text, and null content has a branch of its own.
constexpr const char* kJoins =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' and 'tool_calls' in m %}"
    "{% for c in m['tool_calls'] %}{% if m['content'] is none %}{{ '<call>' + c['function']['name'] + ' ' + "
    "c['function']['arguments'] + '</call>' }}{% else %}{{ m['content'] + '<call>' + c['function']['name'] + ' ' + "
    "c['function']['arguments'] + '</call>' }}{% endif %}{% endfor %}<|im_end|>\n{% else %}{{ m['content'] + "
    "'<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// Prints what it is given, as Functionary's.
constexpr const char* kPrints =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<call>{{ c.function.name }} {{ c.function.arguments }}</call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::string row_with(const std::string& content, const std::string& arguments) {
    return R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", )" + content +
           R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": )" + arguments + "}}]}]}";
}

TEST(RowForms, ArgumentsAreTextForTemplatesThatJoinThem) {
    for (const char* chat_template : {kJoins, kPrints}) {
        for (const char* content : {R"("content": null, )", R"("content": "", )", ""}) {
            const auto as_text = read_them(row_with(content, R"("{\"x\":1,  \"y\": null}")"), chat_template);
            EXPECT_THAT(as_text.texts, ElementsAre(HasSubstr(R"([<call>f {"x":1,  "y": null}</call><|im_end|>])")));
            EXPECT_THAT(as_text.report.notes.lines(), IsEmpty());
            EXPECT_THAT(read_them(row_with(content, R"({"x": 12345678901234567890, "y": "u"})"), chat_template).texts,
                        ElementsAre(HasSubstr(R"([<call>f {"x": 12345678901234567890, "y": "u"}</call><|im_end|>])")));
        }
    }
}

TEST(RowForms, ArgumentsStayAnObjectWhereTheTemplateWritesJson) {
    EXPECT_THAT(read_them(row_with(R"("content": null, )", R"("{\"x\":1}")"), kFullChatMl).texts,
                ElementsAre(HasSubstr(R"([{"name": "f", "arguments": {"x": 1}}<|im_end|>])")));
}

// Pairs, completions and rows with a system message hand messages on once more.
TEST(RowForms, TextStaysTextHoweverTheRowIsMadeUp) {
    const std::string question = R"([{"role": "user", "content": "Q"}])";
    const auto call = [](const char* value) {
        return fmt::format(R"({{"role": "assistant", "content": null, "tool_calls": [{{"function": {{"name": "f",
            "arguments": "{{\"x\":\"{}\"}}"}}}}]}})",
                           value);
    };
    const auto pair = read_them(R"({"system": "S", "prompt": )" + question + R"(, "chosen": [)" + call("a") +
                                    R"(], "rejected": [)" + call("b") + "]}",
                                kJoins, {.pairs = true});
    EXPECT_THAT(pair.texts, ElementsAre(HasSubstr(R"([<call>f {"x":"a"}</call>)"), HasSubstr(R"({"x":"b"}</call>)")));
    EXPECT_THAT(
        read_them(R"({"system": "S", "prompt": )" + question + R"(, "completion": [)" + call("a") + "]}", kJoins).texts,
        ElementsAre(AllOf(HasSubstr("system\nS<"), HasSubstr(R"([<call>f {"x":"a"}</call>)"))));
    EXPECT_THAT(read_them(R"({"conversations": [{"from": "human", "value": "Q"}, {"from": "function_call",
                      "value": "{\"name\": \"f\", \"arguments\": \"{\\\"x\\\":1}\"}"}]})",
                          kJoins)
                    .texts,
                ElementsAre(HasSubstr(R"([<call>f {"x":1}</call>)")));
}

TEST(RowForms, NullContentIsNullWhereTheTemplateAsksForIt) {
    constexpr const char* kAsks =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is none %}<null>{% elif m.content is "
        "undefined %}<absent>{% else %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}{{ c.function | "
        "tojson }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    const auto text = [&](const char* content, const char* chat_template) {
        return read_them(row_with(content, R"({"x": 1})"), chat_template).texts.at(0);
    };
    EXPECT_THAT(text(R"("content": null, )", kAsks), HasSubstr("<null>{"));
    EXPECT_THAT(text("", kAsks), HasSubstr("<absent>{"));
    EXPECT_THAT(text(R"("content": "", )", kAsks), AllOf(HasSubstr("[{"), Not(HasSubstr("<null>"))));
    for (const char* content : {R"("content": null, )", R"("content": "", )", ""})
        EXPECT_THAT(text(content, kFullChatMl), AllOf(HasSubstr("assistant\n[{"), Not(HasSubstr("None")))) << content;
    // It fails without a text.
    constexpr const char* kNeedsText =
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    for (const char* content : {R"("content": null, )", R"("content": "", )", ""})
        EXPECT_THAT(text(content, kNeedsText), HasSubstr("assistant\n[{")) << content;
}

TEST(RowForms, ACallOfNothingIsNoCallAndOneWithoutANameIsRefused) {
    const auto row = [](const std::string& call) {
        return R"({"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": [)" +
               call + "]}]}";
    };
    for (const char* call : {R"({"function": {}})", "{}", R"({"id": null, "function": {"name": "", "arguments": ""}})"})
        EXPECT_THAT(refused_row(row(call), kFullChatMl), HasSubstr("has no \"name\"")) << call;
    for (const char* call : {"null", R"({"id": null, "function": {"name": null, "arguments": null}})"})
        EXPECT_EQ(read_them(row(call), kFullChatMl).report.dropped_empty, 1) << call;
}

// Tools are written before the first answer, and each answer is found without writing all of them again.
TEST(RowForms, ManyToolsAndManyTurns) {
    std::string row = R"({"tools": [)";
    for (int i = 0; i < 200; ++i) row += fmt::format(R"({}{{"name": "tool{}"}})", i == 0 ? "" : ", ", i);
    row += R"(], "messages": [)";
    for (int i = 0; i < 20; ++i)
        row += fmt::format(
            R"({}{{"role": "user", "content": "q{}"}}, {{"role": "assistant", "content": "a{}", "train": {}}})",
            i == 0 ? "" : ", ", i, i, i != 5);
    const std::string text = read_them(row + "]}", kFullChatMl).texts.at(0);
    for (int i = 0; i < 20; ++i)
        EXPECT_THAT(text, HasSubstr(fmt::format("user\nq{}<|im_end|>\n<|im_start|>assistant\n{}a{}<|im_end|>{}\n", i,
                                                i == 5 ? "" : "[", i, i == 5 ? "" : "]")));
    EXPECT_THAT(text, HasSubstr("\"tool199\""));
    // Its answers depend on the number of tools, so that no text with one tool ends as the whole one does.
    constexpr const char* kCounts =
        "{{ tools | tojson }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }} {{ tools | length "
        "}}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    EXPECT_NE(read_them(row + "]}", kCounts).texts.at(0).find("[a7 200<|im_end|>]"), std::string::npos);
}

}  // namespace
}  // namespace windlass
