// Where answers are, in conversations that are long: as the rule of chat_sample.h says, found in windows of few
// messages.
#include "rows/answer_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "rows/chat_writer.h"
#include "tests/place.h"
#include "tests/sanitizer.h"
#include "tests/unit/rows/chats.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

using fixtures::kChatMl;
using testing::HasSubstr;

const std::map<std::string, std::string> kTemplates = {
    {"chatml", kChatMl},
    {"prompt that no answer has",
     "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% if m['role'] == 'assistant' %}</s>{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"},
    {"thoughts of the last turn",
     "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' and not loop.last %}"
     "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"numbered turns",
     "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ loop.index }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant {{ messages | length + 1 }}\n{% endif %}"},
    {"a count at the beginning",
     "{{ messages | length }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
     "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"system in the last question",
     "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% set all = messages[1:] %}{% else %}"
     "{% set all = messages %}{% endif %}<s>{% for m in all %}{% if m.role == 'user' %}"
     "{% if s is defined and (loop.last or loop.index == all | length - 1) %}<|user|>{{ s }}\n{% else %}<|user|>"
     "{% endif %}{{ m.content }}{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"},
    {"alternating roles",
     "{% for m in messages if m.role != 'system' %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
     "{{ raise_exception('roles must alternate') }}{% endif %}<|{{ m.role }}|>{{ m.content | trim }}</s>{% endfor %}"
     "{% if add_generation_prompt %}<|assistant|>{% endif %}"},
    {"no prompt of an answer",
     "{% if add_generation_prompt %}{{ raise_exception('no') }}{% endif %}{% for m in messages %}<|{{ m.role }}|>"
     "{{ m.content }}</s>{% endfor %}"},
    {"another fourth message",
     "{% for m in messages %}<|{{ m.role }}|>{% if loop.index == 4 %}four{% endif %}{{ m.content }}</s>{% endfor %}"
     "{% if add_generation_prompt %}<|assistant|>{% endif %}"}};

// Turns of a question and an answer, whose words are their own.
Json turns(int count, bool has_system, bool thinks) {
    Json list = Json::array();
    if (has_system) list.push_back({{"role", "system"}, {"content", "be kind"}});
    for (int i = 0; i < count; ++i) {
        list.push_back({{"role", "user"}, {"content", fmt::format("q{}", i)}});
        const std::string thought = thinks ? fmt::format("t{}</think>", i) : "";
        list.push_back({{"role", "assistant"}, {"content", fmt::format("{}a{}", thought, i)}});
    }
    return list;
}

// One question, and answers that each follow what the one before it asked for.
Json errands(int count) {
    Json list = Json::array({{{"role", "user"}, {"content", "find out"}}});
    for (int i = 0; i < count; ++i) {
        list.push_back({{"role", "assistant"}, {"content", fmt::format("look {}", i)}});
        list.push_back({{"role", "tool"}, {"content", fmt::format("seen {}", i)}});
    }
    list.push_back({{"role", "assistant"}, {"content", "done"}});
    return list;
}

Chat chat_of(const Json& messages, bool has_tools = false) {
    Json row = {{"messages", messages}};
    const Json parameters = {{"type", "object"}, {"properties", {{"place", {{"type", "string"}}}}}};
    if (has_tools)
        row["tools"] =
            Json::array({{{"type", "function"},
                          {"function", {{"name", "look"}, {"description", "finds out"}, {"parameters", parameters}}}}});
    return read_chat(row.dump(), RowFormat::chat, {}, "row");
}

std::vector<size_t> answers_of(const Chat& chat) {
    std::vector<size_t> answers;
    for (size_t i = 0; i < chat.messages.size(); ++i)
        if (chat.is_answer(i) && chat.may_be_learnt[i]) answers.push_back(i);
    return answers;
}

// As text, or what is refused: "text[12,15)" for each text.
std::string shown(const std::vector<LearntText>& texts) {
    std::string out;
    for (const LearntText& learnt : texts) {
        out += learnt.text;
        for (size_t i = 0; i < learnt.spans.size(); ++i)
            out += fmt::format("[{},{})", learnt.spans[i].begin, learnt.spans[i].end);
        out += "\n---\n";
    }
    return out;
}

// The rule, with the text of all messages before each answer.
std::vector<LearntText> by_whole_texts(const Chat& chat, const ChatFormat& format) {
    WrittenWork work;
    ChatWriter writer(chat, format, chat.tools, "row", work);
    const std::vector<size_t> answers = answers_of(chat);
    LearntText one{.text = writer.whole().text, .messages = answers};
    for (const size_t answer : answers) {
        const std::optional<TextSpan> span = writer.find(answer, one.text);
        if (!span || (!one.spans.empty() && span->begin < one.spans.back().end)) break;
        one.spans.push_back(*span);
    }
    if (one.spans.size() == answers.size()) return {one};
    std::vector<LearntText> each;
    for (const size_t answer : answers) {
        LearntText learnt{.text = writer.write(first_messages(answer + 1), false), .messages = {answer}};
        std::optional<TextSpan> span = writer.find(answer, learnt.text);
        if (!span) span = writer.find_by_content(first_messages(answer), answer, learnt.text, learnt.text);
        if (!span) throw UserError(ExitCode::data, "row", "message {}", answer + 1);
        learnt.spans = {*span};
        each.push_back(learnt);
    }
    return each;
}

template <typename Call>
std::string texts_or_refusal(const Call& call) {
    try {
        return shown(call());
    } catch (const UserError& error) {
        return "refused";
    }
}

void expect_the_rule(const std::string& source, const std::string& name, const Json& messages, bool has_tools = false) {
    const ChatFormat format({.place = "t.jinja", .text = source, .tool_use = ""}, fixtures::chat_model(), "2026-01-31");
    const Chat chat = chat_of(messages, has_tools);
    EXPECT_EQ(
        texts_or_refusal([&] { return learnt_texts(chat, format, TrainTurns::assistant, answers_of(chat), "row"); }),
        texts_or_refusal([&] { return by_whole_texts(chat, format); }))
        << name << ", " << messages.size() << " messages";
}

TEST(AnswerPlaces, AreThoseOfTheRule) {
    for (const auto& [name, source] : kTemplates) {
        for (const int count : {1, 3, 4, 5, 13, 32}) {
            for (const bool has_system : {false, true})
                for (const bool thinks : {false, true}) expect_the_rule(source, name, turns(count, has_system, thinks));
            expect_the_rule(source, name, errands(count));
        }
        Json some = turns(24, true, false);
        for (size_t i = 2; i < some.size(); i += 2) some[i]["train"] = i % 3 == 0;
        expect_the_rule(source, name, some);
    }
}

// The same words everywhere leave nothing to tell turns apart by.
TEST(AnswerPlaces, AreThoseOfTheRuleWhereAllTurnsAreAlike) {
    Json alike = turns(20, false, false);
    for (Json& message : alike) message["content"] = "the same";
    for (const auto& [name, source] : kTemplates) expect_the_rule(source, name, alike);
}

TEST(AnswerPlaces, OfAllTurnsButSomeAreThoseOfTheRule) {
    for (const auto& [name, source] : kTemplates) {
        const ChatFormat format({.place = "t.jinja", .text = source, .tool_use = ""}, fixtures::chat_model(),
                                "2026-01-31");
        Json messages = turns(20, true, false);
        for (size_t i = 0; i < messages.size(); ++i)
            if (i % 3 == 1) messages[i]["train"] = false;
        const Chat chat = chat_of(messages);
        const auto by_rule = [&] {
            WrittenWork work;
            ChatWriter writer(chat, format, chat.tools, "row", work);
            LearntText learnt{.text = writer.whole().text};
            size_t begin = 0;
            for (size_t i = 0; i < chat.messages.size(); ++i) {
                if (chat.may_be_learnt[i]) continue;
                const std::string before = writer.write(first_messages(i), false),
                                  until = writer.write(first_messages(i + 1), false);
                if (!learnt.text.starts_with(until) || !until.starts_with(before))
                    throw UserError(ExitCode::data, "row", "message {}", i + 1);
                if (before.size() > begin) learnt.spans.push_back({begin, before.size()});
                begin = until.size();
            }
            if (begin < learnt.text.size()) learnt.spans.push_back({begin, learnt.text.size()});
            return std::vector{learnt};
        };
        EXPECT_EQ(texts_or_refusal([&] { return learnt_texts(chat, format, TrainTurns::all, {}, "row"); }),
                  texts_or_refusal(by_rule))
            << name;
    }
}

// Each message counts as often as it is written.
size_t messages_written(const char* source, const Json& messages, TrainTurns turns = TrainTurns::assistant,
                        bool has_tools = false) {
    const ChatFormat format({.place = "t.jinja", .text = source, .tool_use = ""}, fixtures::chat_model(), "2026-01-31");
    const Chat chat = chat_of(messages, has_tools);
    size_t written = 0;
    learnt_texts(chat, format, turns, answers_of(chat), "row", &written);
    return written;
}

TEST(AnswerPlaces, TakeFewRenderings) {
    for (const int count : {16, 128, 1023}) {
        const Json questions = turns(count, true, false), asked = errands(count);
        for (const Json* messages : {&questions, &asked}) {
            const size_t size = messages->size();
            EXPECT_LE(messages_written(kChatMl, *messages), 3 * size * static_cast<size_t>(std::bit_width(size)))
                << size;
        }
        Json untrained = questions;
        for (size_t i = 0; i < untrained.size(); ++i)
            if (i % 2 == 1) untrained[i]["train"] = false;
        const size_t size = untrained.size();
        EXPECT_LE(messages_written(kChatMl, untrained, TrainTurns::all),
                  3 * size * static_cast<size_t>(std::bit_width(size)))
            << size;
    }
}

// A text for each answer has all messages before it: they are written once, and little more.
TEST(AnswerPlaces, OfTextsOfTheirOwnAreFoundInWindows) {
    const Json messages = turns(200, false, true);
    size_t of_texts = 0;
    for (size_t answer = 1; answer < messages.size(); answer += 2) of_texts += answer + 1;
    EXPECT_LE(messages_written(kTemplates.at("thoughts of the last turn").c_str(), messages),
              of_texts * 11 / 10 + 4000);
}

std::vector<std::string> shared_templates() {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(shared_data("chat-templates")))
        if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
    return paths;
}

bool needs_tools(const std::string& path) {
    return path.find("tool_use") != std::string::npos;
}

TEST(PublishedTemplates, FindTheAnswersOfTheRule) {
    WINDLASS_NEEDS_SHARED_DATA("chat-templates");
    for (const std::string& path : shared_templates()) {
        const std::string source = fixtures::read(path);
        for (const int count : {1, 3, 4, 9, 40}) {
            expect_the_rule(source, path, turns(count, false, false), needs_tools(path));
            expect_the_rule(source, path, turns(count, true, true), needs_tools(path));
            expect_the_rule(source, path, errands(count), needs_tools(path));
        }
    }
}

// Long ones stay within the bounds of templates, which grow with the chat, and below a few renderings of each message.
TEST(PublishedTemplates, TakeTwoThousandMessages) {
    WINDLASS_NEEDS_SHARED_DATA("chat-templates");
    const int count = is_second_run() ? 100 : 1000;
    for (const std::string& path : shared_templates()) {
        const std::string source = fixtures::read(path);
        const Json messages = turns(count, false, false);
        EXPECT_LE(messages_written(source.c_str(), messages, TrainTurns::assistant, needs_tools(path)),
                  30 * messages.size())
            << path;
    }
}

}  // namespace
}  // namespace windlass
