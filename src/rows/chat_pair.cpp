// Pairs of answers as two conversations.
#include <algorithm>

#include "rows/chat.h"
#include "rows/chat_reader.h"
#include "rows/jq_command.h"
#include "rows/message.h"

namespace windlass {
namespace {

constexpr const char* kWholeForm =
    "\"chosen\" and \"rejected\" as conversations that begin with the same question, or a \"prompt\" and two answers";

bool is_answer(const Json& message) {
    return message["role"] == "assistant";
}

class PairReader {
  public:
    PairReader(const Json& row, const FieldNames& names, std::string_view where)
        : row_(row), names_(names), where_(where), chosen_(answer_of("chosen")), rejected_(answer_of("rejected")) {}

    ChatPair read() {
        const bool is_whole = begins_with_question(chosen_.messages()) || begins_with_question(rejected_.messages());
        const ChatReader question = is_whole ? shared_question() : question_beside();
        if (is_whole) require_same_question(question.messages());
        return {chat_of(question, chosen_, "chosen", is_whole), chat_of(question, rejected_, "rejected", is_whole)};
    }

  private:
    ChatReader answer_of(const char* key) const {
        ChatReader reader(row_, where_);
        reader.add_any(row_[key], key, "assistant", true);
        if (reader.is_empty()) throw UserError(ExitCode::data, where_, "\"{}\" is empty", key).hint(kWholeForm);
        return reader;
    }

    static bool begins_with_question(const Json& messages) { return !is_answer(messages.front()); }

    // To the reader: ids and times may differ.
    static bool is_same(const Json& a, const Json& b) {
        return std::ranges::all_of(
            std::initializer_list<const char*>{"role", "content", "tool_calls", "reasoning_content"},
            [&](const char* key) { return a.value(key, Json()) == b.value(key, Json()); });
    }

    // What both conversations begin with, up to where they differ: it ends before an answer.
    ChatReader shared_question() const {
        const Json &a = chosen_.messages(), &b = rejected_.messages();
        size_t count = 0;
        while (count < a.size() && count < b.size() && is_same(a[count], b[count])) ++count;
        if (count == a.size() || count == b.size()) count = std::min(a.size(), b.size()) - 1;  // equal answers
        if (count == 0 || !is_answer(a[count]) || !is_answer(b[count]))
            throw UserError(ExitCode::data, where_,
                            "\"chosen\" and \"rejected\" are conversations with different questions")
                .hint(kWholeForm);
        return first_of(chosen_, count);
    }

    ChatReader first_of(const ChatReader& whole, size_t count) const {
        ChatReader reader(row_, where_);
        for (size_t i = 0; i < count; ++i) reader.add_again(whole, i, /*may_be_learnt=*/false);
        return reader;
    }

    // The keys of the row that ask, where the answers are answers alone.
    ChatReader question_beside() const {
        ChatReader reader(row_, where_);
        std::string key;
        const Json* const messages = find_messages(row_, names_, key, where_);
        if (messages) {
            reader.add_all(*messages, key);
        } else if (find_member(row_, {names_.instruction})) {
            reader.add_instruction(row_, names_, true);
        } else if (const Json* const prompt = find_member(row_, {names_.prompt})) {
            reader.add_any(*prompt, names_.prompt, "user", true);
        }
        reader.put_system(row_);
        reader.require_agreement(row_, names_, /*is_question=*/true);
        if (reader.is_empty()) throw UserError(ExitCode::data, where_, "the answers have no question").hint(kWholeForm);
        const Json& last = reader.messages().back();
        if (!is_answer(last)) return reader;
        // Some repeat the preferred answer there.
        if (last != chosen_.messages().front())
            throw UserError(ExitCode::data, where_, "\"{}\" ends in an answer that is not the chosen one", key)
                .hint("a conversation that ends in a question");
        if (reader.size() == 1)
            throw UserError(ExitCode::data, where_, "the answers have no question").hint(kWholeForm);
        return first_of(reader, reader.size() - 1);
    }

    // What is next to whole conversations must be in them.
    void require_same_question(const Json& question) const {
        ChatReader reader(Json::object(), where_);
        reader.add_all(question, "chosen");
        reader.require_agreement(row_, names_, /*is_question=*/true);
        std::string key;
        const Json* const messages = find_messages(row_, names_, key, where_);
        if (!messages) return;
        ChatReader other(row_, where_);
        other.add_all(*messages, key);
        for (const Json* same : {&question, &chosen_.messages(), &rejected_.messages()})
            if (std::ranges::equal(other.messages(), *same, is_same)) return;
        throw UserError(ExitCode::data, where_, "\"{}\" is neither the question nor the conversation of an answer", key)
            .hint(jq_command(where_, fmt::format("del({})", jq_member(key))) + ", which keeps the answers");
    }

    Chat chat_of(const ChatReader& question, const ChatReader& answer, const char* key, bool is_whole) const {
        ChatReader reader = first_of(question, question.size());
        for (size_t i = is_whole ? question.size() : 0; i < answer.size(); ++i)
            reader.add_again(answer, i, answer.may_be_learnt(i));
        if (is_whole) reader.put_system(row_);
        Chat chat = reader.take();
        if (!chat.is_answer(chat.messages.size() - 1))
            throw UserError(ExitCode::data, where_, "\"{}\" does not end a conversation by an assistant's answer", key)
                .hint(R"({"role": "assistant", "content": "..."} as its last message, after a question)");
        return chat;
    }

    const Json& row_;
    const FieldNames& names_;
    std::string_view where_;
    ChatReader chosen_, rejected_;
};

}  // namespace

ChatPair read_chat_pair(std::string_view json, const FieldNames& names, std::string_view where) {
    const Json row = parse_row(json, where);
    return PairReader(row, names, where).read();
}

}  // namespace windlass
