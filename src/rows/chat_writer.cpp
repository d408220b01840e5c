#include "rows/chat_writer.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text_cuts.h"
#include "rows/chat_sample.h"
#include "rows/chat_written.h"

namespace windlass {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Messages first_messages(size_t count) {
    Messages messages(count);
    std::iota(messages.begin(), messages.end(), size_t{0});
    return messages;
}

Messages with_message(Messages messages, size_t more) {
    messages.push_back(more);
    return messages;
}

std::string ChatWriter::write(const Messages& messages, bool add_generation_prompt) {
    if (messages.empty() && !add_generation_prompt) return "";
    Json part = Json::array();
    for (const size_t message : messages) part.push_back(chat_.messages[message]);
    return render(part, add_generation_prompt).text;
}

RenderedChat ChatWriter::render(const Json& messages, bool add_generation_prompt) {
    RenderedChat made = format_.render({.messages = &messages,
                                        .tools = &tools_,
                                        .add_generation_prompt = add_generation_prompt,
                                        .extra = &chat_.variables},
                                       where_);
    work_.messages += messages.size();
    work_.bytes += made.text.size();
    if (work_.bytes > kChatRenderedBytesMax)
        throw UserError(ExitCode::data, where_, "the conversation is too long to find its answers: {} messages",
                        chat_.messages.size())
            .hint("cut it in several rows, or train_turns: last");
    return made;
}

std::optional<TextSpan> ChatWriter::find(const Messages& before, size_t answer, std::string_view until,
                                         std::string_view text) {
    try {
        if (!text.starts_with(until)) return std::nullopt;
        const std::string prompt = write(before, true);
        size_t begin = common_prefix(text, prompt);
        if (begin < prompt.size()) {
            const std::string context = write(before, false);
            if (!text.starts_with(context) || begin < context.size()) return std::nullopt;
            begin = character_begin(text, begin);
            // What the template puts between the context and the answer may differ from the prompt's.
            const std::optional<TextSpan> by_content = gives_content_alone(chat_.messages[answer])
                                                           ? find_by_content(before, answer, until, text)
                                                           : std::nullopt;
            if (by_content) begin = std::max(begin, by_content->begin);
        }
        if (begin >= until.size()) return std::nullopt;
        return TextSpan{begin, until.size()};
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError& error) {
        problem_ = error.what();
        return find_by_content(before, answer, until, text);
    }
}

std::optional<TextSpan> ChatWriter::find(size_t answer, std::string_view text) {
    std::string until;
    try {
        until = write(first_messages(answer + 1), false);
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError& error) {
        problem_ = error.what();
        return std::nullopt;
    }
    return find(first_messages(answer), answer, until, text);
}

std::optional<TextSpan> ChatWriter::find_by_content(const Messages& before, size_t answer, std::string_view until,
                                                    std::string_view text) {
    constexpr std::string_view kOther = "OoWordThreeoO";
    Json others = Json::array();
    for (const size_t message : before) others.push_back(chat_.messages[message]);
    others.push_back(chat_.messages[answer]);
    if (!others.back().contains("content")) return std::nullopt;
    others.back()["content"] = kOther;
    try {
        const std::string other = render(others, false).text;
        const size_t begin = other.find(kOther);
        if (!text.starts_with(until) || begin == std::string::npos) return std::nullopt;
        const bool parts_there = until.size() > begin && other.compare(0, begin, until, 0, begin) == 0;
        return parts_there ? std::optional(TextSpan{begin, until.size()}) : std::nullopt;
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return std::nullopt;
    }
}

}  // namespace windlass
