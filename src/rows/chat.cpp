#include "rows/chat.h"

#include <algorithm>

#include "base/error.h"
#include "rows/chat_reader.h"
#include "rows/message.h"

namespace windlass {
namespace {

// Some completions repeat the prompt.
void add_completion(const Json& completion, const std::string& key, const Json& row, ChatReader& reader,
                    std::string_view where) {
    ChatReader answer(row, where);
    answer.add_any(completion, key, "assistant", /*may_be_learnt=*/true);
    const Json &asked = reader.messages(), &said = answer.messages();
    const bool repeats =
        said.size() > asked.size() && !asked.empty() && std::equal(asked.begin(), asked.end(), said.begin());
    if (!said.empty() && said[0]["role"] != "assistant" && !repeats)
        throw UserError(ExitCode::data, where, "\"{}\" begins with a message that no model writes", key)
            .hint("a list that begins with the assistant's answer");
    for (size_t i = repeats ? asked.size() : 0; i < said.size(); ++i)
        reader.add_again(answer, i, answer.may_be_learnt(i));
}

void read_messages(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    std::string key;
    if (const Json* const messages = find_messages(row, names, key, where)) {
        reader.add_all(*messages, key);
        reader.put_system(row);
        return reader.require_agreement(row, names);
    }
    // A prompt and a completion that are lists of messages, as TRL has them; one of them may be a text.
    if (const Json* const prompt = find_member(row, {names.prompt}))
        reader.add_any(*prompt, names.prompt, "user", /*may_be_learnt=*/false);
    if (const Json* const completion = find_member(row, {names.completion}))
        add_completion(*completion, names.completion, row, reader, where);
    reader.put_system(row);
    reader.require_agreement(row, names);
}

// LLaMA-Factory's: "system" is first, "history" is a list of [question, answer].
void read_alpaca_chat(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    reader.add_instruction(row, names, /*may_be_learnt=*/true);
    const Json* const output = find_member(row, {names.output});
    reader.add_text("assistant", output ? text_at(*output, names.output, where) : "");
    reader.put_system(row);
}

}  // namespace

Chat read_chat(std::string_view json, RowFormat format, const FieldNames& names, std::string_view where) {
    const Json row = parse_row(json, where);
    ChatReader reader(row, where);
    if (format == RowFormat::alpaca)
        read_alpaca_chat(row, names, reader, where);
    else
        read_messages(row, names, reader, where);
    return reader.take();
}

}  // namespace windlass
