// chat_reader.h: puts a conversation together from what a row has of one.
#pragma once

#include <string>
#include <string_view>

#include "rows/chat.h"

namespace windlass {

class ChatReader {
  public:
    // The tools of the row are read first: they say which arguments may be null. Then what else its template is given.
    ChatReader(const Json& row, std::string_view where);

    void add(Json message, bool may_be_learnt = true);
    // A message that another reader has read.
    void add_again(const ChatReader& other, size_t message, bool may_be_learnt);
    void add_all(const Json& list, std::string_view key, bool may_be_learnt = true);
    void add_text(std::string_view role, const std::string& text, bool may_be_learnt = true);
    // A list of messages, one message, or the text of one by this role.
    void add_any(const Json& value, std::string_view key, std::string_view role, bool may_be_learnt);

    // The row's "system" (or "system_prompt") is the first message, if the conversation has none that says the same.
    // Throws UserError(data) where it has another.
    void put_system(const Json& row);
    // Alpaca's "history", "instruction" and "input": questions and answers, and the last question.
    void add_instruction(const Json& row, const FieldNames& names, bool may_be_learnt);
    // Keys that may repeat a part of the conversation must say what some message says. Throws UserError(data).
    // Of a question alone: keys that ask.
    void require_agreement(const Json& row, const FieldNames& names, bool is_question = false) const;

    const Json& messages() const { return chat_.messages; }
    bool may_be_learnt(size_t message) const { return chat_.may_be_learnt[message] != 0; }
    bool is_empty() const { return chat_.messages.empty(); }
    size_t size() const { return chat_.messages.size(); }
    Chat take();

  private:
    void require_room() const;
    void add_history(const Json& history, bool may_be_learnt);
    void require_said(const Json& row, const std::string& key, bool by_assistant) const;

    std::string_view where_;
    Chat chat_;
};

// Parsed, without members that are null: tables give each row the columns of all.
Json parse_row(std::string_view json, std::string_view where);
// What holds the messages of a row: the user's own name, or one of the two usual ones; null where there is none.
// Where both usual ones are there, they must be equal.
const Json* find_messages(const Json& row, const FieldNames& names, std::string& key, std::string_view where);

}  // namespace windlass
