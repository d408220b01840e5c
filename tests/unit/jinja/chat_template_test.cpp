// What templates may do and what they may not, and how errors name it.
#include "jinja/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const windlass::Json kTwoMessages = windlass::Json::parse(
    R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho", "reasoning": "hm"}])");

RenderedChat rendered_chat(std::string_view source, const TemplateSettings& settings = {}) {
    return ChatTemplate::parse(source, "t.jinja").render({.messages = &kTwoMessages}, settings, "rows.jsonl:7");
}

std::string error_of(std::string_view source, ExitCode code = ExitCode::data, const TemplateSettings& settings = {}) {
    try {
        return "rendered: " + rendered_chat(source, settings).text;
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        return error.what();
    }
}
std::string parse_error_of(std::string_view source) {
    return error_of(source, ExitCode::model);
}

TEST(ChatTemplate, WhatItRaisesIsToldWithItsLineAndTheRowsPlace) {
    EXPECT_EQ(error_of("{% if true %}\n{{ raise_exception('roles must ' ~ 'alternate') }}{% endif %}"),
              "rows.jsonl:7: the chat template (t.jinja:2) refuses this chat: roles must alternate. "
              "Try: messages in the order that it expects, or another template, in chat_template: FILE");
}

TEST(ChatTemplate, LongWordsOfATemplateAreCut) {
    EXPECT_THAT(error_of("{{ raise_exception('a' * 5000) }}"), HasSubstr(std::string(200, 'a') + "... (5000 bytes)"));
    EXPECT_LT(error_of("{{ " + std::string(5000, 'a') + ".b.c }}").size(), 500u);
    EXPECT_LT(parse_error_of("{% " + std::string(5000, 'a') + " %}").size(), 500u);
}

TEST(ChatTemplate, WhatPythonCannotDoIsToldWithItsLine) {
    EXPECT_EQ(
        error_of("a\n{{ messages[5].role }}"),
        "rows.jsonl:7: the chat template (t.jinja:2) cannot write this chat: the attribute \"role\": the value is "
        "undefined. Try: another template, in chat_template: FILE");
    EXPECT_THAT(error_of("\n\n{{ 1 +\n 'a' }}"), HasSubstr("(t.jinja:3) cannot write this chat: \"+\" does not go"));
}

TEST(ChatTemplate, EachKindOfReasoningIsGivenUnderEveryName) {
    EXPECT_EQ(rendered_chat("{{ messages[1] }}").text,
              "{'thinking': 'hm', 'role': 'assistant', 'content': 'ho', 'reasoning': 'hm', 'reasoning_content': 'hm'}");
}

TEST(ChatTemplate, NamesTheTokensThatATokenizerHasAlone) {
    TemplateSettings settings;
    settings.special_tokens = {{"bos_token", "<s>"}};
    EXPECT_EQ(rendered_chat("{{ bos_token }}{{ eos_token is defined }}", settings).text, "<s>False");
}

TEST(ChatTemplate, TheDateIsTheOneThatIsGiven) {
    TemplateSettings settings;
    settings.now_seconds = 1764028800;  // 2025-11-25 00:00:00
    EXPECT_EQ(rendered_chat("{{ strftime_now('%d %b %Y, %-H:%M') }}", settings).text, "25 Nov 2025, 0:00");
    EXPECT_THAT(error_of("{{ strftime_now('%c') }}"), HasSubstr("strftime_now: \"%c\" is not supported"));
    EXPECT_THAT(error_of("{{ strftime_now('%') }}"), HasSubstr("strftime_now: \"%\" is not supported"));
}

TEST(ChatTemplate, SaysWhetherAndWhereItMarksWhatIsGenerated) {
    EXPECT_FALSE(ChatTemplate::parse("{{ messages }}", "t").marks_generation());
    const std::string source =
        "{% for m in messages %}\u00e9{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    EXPECT_TRUE(ChatTemplate::parse(source, "t").marks_generation());
    const RenderedChat chat = rendered_chat(source);
    EXPECT_EQ(chat.text, "\u00e9hi\u00e9ho");
    EXPECT_EQ(chat.generated, (std::vector<std::pair<size_t, size_t>>{{2, 4}, {6, 8}}));
}

// jinja2 gives a name that a scope assigns to first to that scope from its beginning.
TEST(ChatTemplate, ANameThatIsAssignedToFirstHidesTheChats) {
    EXPECT_EQ(rendered_chat("{% for i in [1] %}{{ tools is defined }}{% endfor %}{% set tools = 1 %}").text, "False");
    EXPECT_EQ(rendered_chat("{{ tools }}{% for i in [1] %}{{ tools is defined }}{% endfor %}{% set tools = 1 %}").text,
              "NoneTrue");
    EXPECT_EQ(rendered_chat("{% if false %}{% set tools = 1 %}{% endif %}{{ tools }}").text, "None");
}

struct Refused {
    std::string_view source, message;
};

TEST(ChatTemplate, WhatIsNotSupportedIsRefusedWithItsLine) {
    constexpr Refused kRefused[] = {
        {"{% include 'x' %}", "t.jinja:1: the chat template cannot be used: the tag \"include\" is not supported"},
        {"\n{% call f() %}{% endcall %}",
         "t.jinja:2: the chat template cannot be used: the tag \"call\" is not supported"},
        {"{{ x | pprint }}", "the filter \"pprint\" is not supported"},
        {"{{ x | a.b }}", "the filter \"a\" is not supported"},
        {"{{ x is filter }}", "the test \"is filter\" is not supported"},
        {"{{ lipsum() }}", "\"lipsum\" is not supported"},
        {"{% for a in b recursive %}{% endfor %}", "recursive loops are not supported"},
        {"{{ f(*a) }}", "arguments with * are not supported"},
        {"{{ a[1, 2] }}", "several indices"},
        {"{% macro f() %}{{ caller() }}{% endmacro %}", "\"caller\" within a macro is not supported"},
        {"{% for i in a %}{% macro f() %}{% endmacro %}{% endfor %}", "a macro within a loop"},
        {"{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}", "a generation block within a macro"},
        {"{% break %}", "\"break\" is in no loop"},
        {"{% set loop = 1 %}", "\"loop\" cannot be assigned to"},
        {"{{ '\\N{DASH}' }}", "strings with \\N are not supported"},
        {"{{ '\\ud800' }}", "names no character"},
        {"{{ 99999999999999999999 }}", "does not fit into 64 bits"},
        {"{{ a", "the tag {{ has no }}"},
        {"{# a", "the comment has no end"},
        {"{{ 'a }}", "the string has no end"},
        {"{{ (a] }}", "unexpected \"]\""},
        {"{{ a $ b }}", "unexpected character \"$\""},
        {"{{ \u00e9 }}", "unexpected character \"\u00e9\""},
        {"{% if a %}", "\"endif\" is missing for the block of line 1"},
        {"{% if a %}{% endfor %}", "found the tag \"endfor\", expected \"endif\""},
        {"{% endif %}", "closes nothing here"},
        {"{{ }}", "an expression is missing before }}"},
        {"\xff", "it is not valid UTF-8"},
    };
    for (const Refused& refused : kRefused) EXPECT_THAT(parse_error_of(refused.source), HasSubstr(refused.message));
}

TEST(ChatTemplate, WhatIsNotSupportedOfValuesIsRefusedWhenItIsMet) {
    constexpr Refused kRefused[] = {
        {"{{ 'a'.format() }}", "the attribute \"format\" of a value of type str is not supported"},
        {"{{ [].append(1) }}", "the attribute \"append\" of a value of type list is not supported"},
        {"{{ ''.__class__ }}", "the attribute \"__class__\" is not supported"},
        {"{{ '%s' % 1 }}", "formatting with % is not supported"},
        {"{{ ('<' | safe) + '>' }}", "it escapes HTML"},
        {"{{ namespace() }}", "a value of type Namespace cannot be written as text"},
        {"{{ range | tojson }}", "a value of type function cannot be written as JSON"},
        {"{% set a = namespace(_x=1) %}", "a namespace cannot have the member \"_x\""},
        {"{% set a.b = 1 %}", "a member is set: \"a\" is undefined"},
        {"{{ 1 // 0 }}", "division by zero"},
        {"{{ 9223372036854775807 + 1 }}", "does not fit into 64 bits"},
        {"{{ [1] | map('pprint') | list }}", "the filter \"pprint\" is not supported"},
        {"{% for a, b in [[1]] %}{% endfor %}", "1 values are assigned to 2 names"},
        {"{{ {[]: 1} }}", "a key of a dict"},
        {"{{ missing() }}", "a call: \"missing\" is undefined"},
    };
    for (const Refused& refused : kRefused) EXPECT_THAT(error_of(refused.source), HasSubstr(refused.message));
}

std::string repeated_text(std::string_view text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
}

// An expression, within so many of these.
std::string nested(std::string_view open, std::string_view inner, std::string_view close, size_t count) {
    return fmt::format("{{{{ {}{}{} }}}}", repeated_text(open, count), inner, repeated_text(close, count));
}

TEST(ChatTemplate, NestingIsBounded) {
    for (const size_t count : {201u, 20000u}) {
        EXPECT_THAT(parse_error_of(nested("(", "1", ")", count)), HasSubstr("nested deeper than 100 levels"));
        EXPECT_THAT(parse_error_of(nested("[", "1", "]", count)), HasSubstr("nested deeper than 100 levels"));
        EXPECT_THAT(parse_error_of(nested("not ", "a", "", count)), HasSubstr("nested deeper than 100 levels"));
        EXPECT_THAT(parse_error_of(nested("- ", "1", "", count)), HasSubstr("nested deeper than 100 levels"));
        EXPECT_THAT(parse_error_of(nested("a if b else ", "c", "", count)), HasSubstr("nested deeper than 100"));
        EXPECT_THAT(parse_error_of(nested("", "1", " + 1", count)), HasSubstr("nested deeper than 200 levels"));
        EXPECT_THAT(parse_error_of(nested("", "a", ".a", count)), HasSubstr("nested deeper than 200 levels"));
        EXPECT_THAT(parse_error_of(nested("", "a", " | trim", count)), HasSubstr("nested deeper than 200 levels"));
        EXPECT_THAT(parse_error_of(nested("", "a", "()", count)), HasSubstr("nested deeper than 200 levels"));
        EXPECT_THAT(parse_error_of(repeated_text("{% if a %}", count)), HasSubstr("nested deeper than 50 levels"));
    }
    EXPECT_EQ(rendered_chat(nested("(", "1", ")", 90)).text, "1");
    EXPECT_EQ(rendered_chat(nested("", "1", " + 1", 190)).text, "191");
    EXPECT_THAT(error_of("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
                HasSubstr("deeper than 1000 levels"));
    EXPECT_THAT(error_of("{% set n = namespace(v=[]) %}{% for i in range(999) %}{% set n.v = [n.v] %}{% endfor %}"),
                HasSubstr("a value is nested deeper than 100 levels"));
}

TEST(ChatTemplate, WorkMemoryAndOutputAreBounded) {
    TemplateSettings settings;
    settings.limits = TemplateLimits{.work = 1 << 20, .memory_bytes = 1 << 20, .output_bytes = 1 << 10};
    for (const std::string_view source :
         {"{% set r = range(999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
          "{% set r = range(999) %}{% for a in r %}{% for b in r if false %}{% endfor %}{% endfor %}",
          "{% set s = 'ab' * 9999 %}{% for a in range(999) %}{% set x = 'aa' in s %}{% endfor %}",
          "{% set s = 'ab' * 9999 %}{% for a in range(999) %}{% set x = s[-1] %}{% endfor %}",
          "{% set s = 'ab' * 9999 %}{% for a in range(999) %}{% set x = s | length %}{% endfor %}",
          "{% set s = range(999) | list %}{% for a in range(9999) %}{% set x = s == s %}{% endfor %}"})
        EXPECT_THAT(error_of(source, ExitCode::data, settings), HasSubstr("more than 1048576 units of work")) << source;
    for (const std::string_view source :
         {"{{ 'abc' * 999999999999 }}", "{{ [1] * 999999999999 }}", "{{ range(99999) | join('x' * 99) }}",
          "{% set n = namespace(s='aaaa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
          "{% set n = namespace(s='aaaa') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
          "{{ ('a' * 1000).replace('', 'b' * 9999) }}",
          "{% set x = ('a' * 9999) | tojson(indent=9) %}{{ (x * 99) | list }}",
          "{% set n = namespace(v=[1]) %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}{% endfor %}{{ n.v | tojson "
          "}}"})
        EXPECT_THAT(error_of(source, ExitCode::data, settings), HasSubstr("more than 1048576 ")) << source;
    EXPECT_THAT(error_of("{% for i in range(99) %}0123456789abcdef{% endfor %}", ExitCode::data, settings),
                HasSubstr("it writes more than 1024 bytes"));
    EXPECT_THAT(error_of("{{ range(100001) }}"), HasSubstr("a range has more than 100000 numbers"));
}

TEST(ChatTemplate, LongSourcesAreRefused) {
    EXPECT_THAT(parse_error_of(std::string((1 << 18) + 1, 'a')), HasSubstr("more than 262144"));
    std::string names;
    for (int i = 0; i < 251; ++i) names += fmt::format("{{{{ a{} }}}}", i);
    EXPECT_THAT(parse_error_of(names), HasSubstr("more than 250 names"));
}

}  // namespace
}  // namespace windlass
