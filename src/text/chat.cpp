#include "text/chat.h"

#include "text/chat_reader.h"
#include "text/message.h"

namespace windlass {
namespace {

// Keys next to a conversation that may repeat a part of it.
void require_agreement(const Json& row, const FieldNames& names, const ChatReader& reader) {
    for (const std::string* key : {&names.prompt, &names.instruction, &names.input})
        reader.require_said(row, *key, /*by_assistant=*/false);
    for (const std::string* key : {&names.completion, &names.output})
        reader.require_said(row, *key, /*by_assistant=*/true);
}

void read_messages(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    std::string key;
    if (const Json* const messages = find_messages(row, names, key, where)) {
        reader.add_all(*messages, key);
        reader.put_system(row);
        return require_agreement(row, names, reader);
    }
    // A prompt and a completion that are lists of messages, as TRL has them; one of them may be a text.
    if (const Json* const prompt = find_member(row, {names.prompt}))
        reader.add_any(*prompt, names.prompt, "user", /*may_be_learnt=*/false);
    if (const Json* const completion = find_member(row, {names.completion}))
        reader.add_any(*completion, names.completion, "assistant", /*may_be_learnt=*/true);
    reader.put_system(row);
    reader.require_said(row, names.instruction, false);
    reader.require_said(row, names.output, true);
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
