#include "rows/chat_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/json_row.h"
#include "base/printable.h"
#include "rows/jq_command.h"
#include "rows/message.h"
#include "rows/not_finite.h"
#include "rows/row_template.h"
#include "rows/tool_call.h"

namespace windlass {
namespace {

constexpr const char* kKey = "chat_template_kwargs";

// Arguments of apply_chat_template. The first ones say what a row of another key says.
constexpr std::string_view kOwnKeys[] = {"messages", "conversation", "tools"};
constexpr std::string_view kArguments[] = {"chat_template",
                                           "add_generation_prompt",
                                           "continue_final_message",
                                           "tokenize",
                                           "padding",
                                           "truncation",
                                           "max_length",
                                           "return_tensors",
                                           "return_dict",
                                           "return_assistant_tokens_mask",
                                           "tokenizer_kwargs",
                                           "processor_kwargs"};

void refuse_arguments(const Json& variables, std::string_view where) {
    for (const auto& [key, value] : variables.items()) {
        const bool is_key = std::ranges::find(kOwnKeys, key) != std::end(kOwnKeys);
        if (!is_key && std::ranges::find(kArguments, key) == std::end(kArguments)) continue;
        const std::string member = fmt::format(".{}{}", kKey, jq_member(key));
        const std::string own = key == "tools" ? "tools" : "messages";
        UserError error(ExitCode::data, where, "\"{}\" has \"{}\", which is no variable of a template", kKey, key);
        throw error.hint(jq_command(where, is_key ? fmt::format(".{} = {} | del({})", own, member, member)
                                                  : fmt::format("del({})", member)) +
                         (key == "chat_template" ? ", and that template in chat_template: FILE" : ""));
    }
}

// The members of "chat_template_kwargs", which the template sees as variables: an object, or null without any.
// Members that are null are left out, as tables give each row those of all. Throws UserError(data) naming `where`:
// no object, and what is an argument of transformers' apply_chat_template and no variable.
Json template_variables(const Json& row, std::string_view where) {
    const Json* const given = find_member(row, {kKey});
    if (!given || is_nothing(*given)) return {};
    if (!given->is_object())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not an object", kKey, given->type_name())
            .hint(R"("chat_template_kwargs": {"enable_thinking": false})");
    refuse_not_finite_in(*given, kKey, where);
    Json variables = *given;
    drop_empty_members(variables);
    refuse_arguments(variables, where);
    return variables;
}

constexpr const char* kHistoryForm = R"("history": [["question", "answer"]])";

bool is_empty_text(const Json& value) {
    return value.is_string() && value.get_ref<const std::string&>().empty();
}

std::string optional_text(const Json& row, const std::string& key, std::string_view where) {
    const Json* const value = find_member(row, {key});
    return value ? text_at(*value, key, where) : "";
}

}  // namespace

Json parse_row(std::string_view json, std::string_view where) {
    Json row = parse_row_with_digits(json, where);
    Json kept = Json::object();
    auto& members = kept.get_ref<Json::object_t&>();
    for (auto& [key, value] : row.get_ref<Json::object_t&>())
        if (!value.is_null()) members.emplace_back(key, std::move(value));
    return kept;
}

const Json* find_messages(const Json& row, const FieldNames& names, std::string& key, std::string_view where) {
    const auto find_list = [&](const std::string& name) {
        const Json* const list = find_member(row, {name});
        return list && list->is_array() && list->empty() ? nullptr : list;
    };
    for (const std::string& name : {names.messages, std::string("messages"), std::string("conversations")}) {
        const Json* const found = find_list(name);
        if (!found) continue;
        key = name;
        const Json* const other = name == "messages" ? find_list("conversations") : nullptr;
        if (other && names.messages == "messages") {
            ChatReader one(row, where), two(row, where);
            one.add_all(*found, "messages");
            two.add_all(*other, "conversations");
            if (one.messages() != two.messages())
                throw UserError(ExitCode::data, where,
                                "\"messages\" and \"conversations\" are not the same conversation")
                    .hint("messages_field: messages, with the other key removed");
        }
        return found;
    }
    return nullptr;
}

ChatReader::ChatReader(const Json& row, std::string_view where) : where_(where) {
    chat_.messages = Json::array();
    ToolList tools = read_tools(find_member(row, {"tools"}), "tools", where);
    for (const char* key : {"tools", "functions"})
        if (const Json* const list = find_member(row, {key})) refuse_not_finite_in(*list, key, where);
    ToolList functions = read_tools(find_member(row, {"functions"}), "functions", where);
    if (!tools.tools.is_null() && !functions.tools.is_null() && tools.tools != functions.tools)
        throw UserError(ExitCode::data, where, "\"tools\" and \"functions\" are not the same").hint("\"tools\" alone");
    chat_.had_empty_members = tools.had_empty_members || functions.had_empty_members;
    chat_.tools = std::move(tools.tools.is_null() ? functions.tools : tools.tools);
    chat_.variables = template_variables(row, where);
}

void ChatReader::add(Json message, bool may_be_learnt) {
    const std::string place = fmt::format("{}: message {}", where_, chat_.messages.size() + 1);
    require_room();
    const bool message_trains = message.is_object() && message.contains("train") && message["train"] == true;
    Message made = read_message(std::move(message), chat_.tools, place);
    if (message_trains && made.json["role"] != "assistant")
        throw UserError(ExitCode::data, place, "\"train\" is true of a message that no model writes")
            .hint("train_turns: all, which learns every message");
    chat_.messages.push_back(std::move(made.json));
    chat_.may_be_learnt.push_back(may_be_learnt && made.is_trained.value_or(true));
    chat_.forms.push_back(std::move(made.form));
    chat_.had_empty_members |= made.had_empty_members;
}

void ChatReader::add_again(const ChatReader& other, size_t message, bool may_be_learnt) {
    require_room();
    chat_.messages.push_back(other.chat_.messages[message]);
    chat_.may_be_learnt.push_back(may_be_learnt);
    chat_.forms.push_back(other.chat_.forms[message]);
    chat_.had_empty_members |= other.chat_.had_empty_members;
}

void ChatReader::require_room() const {
    if (chat_.messages.size() == kChatMessagesMax)
        throw UserError(ExitCode::data, where_, "a conversation has at most {} messages", kChatMessagesMax)
            .hint("cut it in several rows");
}

void ChatReader::add_all(const Json& list, std::string_view key, bool may_be_learnt) {
    if (!list.is_array())
        throw UserError(ExitCode::data, where_, "\"{}\" is {} and not a list", key, list.type_name())
            .hint(fmt::format("\"{}\": [{}]", key, kMessageForm));
    for (const Json& message : list) add(message, may_be_learnt);
}

void ChatReader::add_text(std::string_view role, const std::string& text, bool may_be_learnt) {
    add(Json{{"role", role}, {"content", text}}, may_be_learnt);
}

void ChatReader::add_any(const Json& value, std::string_view key, std::string_view role, bool may_be_learnt) {
    if (value.is_array()) return add_all(value, key, may_be_learnt);
    if (value.is_object()) return add(value, may_be_learnt);
    add_text(role, text_at(value, key, where_), may_be_learnt);
}

void ChatReader::put_system(const Json& row) {
    std::string system;
    for (const char* key : {"system", "system_prompt"}) {
        const Json* const value = find_member(row, {key});
        if (!value || is_nothing(*value)) continue;
        const std::string text = text_of_content(*value, key, where_);
        if (!system.empty() && text != system)
            throw UserError(ExitCode::data, where_, "\"system\" and \"{}\" are not the same", key).hint("one of them");
        system = text;
    }
    if (system.empty()) return;
    if (!chat_.messages.empty() && chat_.messages[0]["role"] == "system") {
        if (stripped(chat_.messages[0].value("content", "")) == stripped(system)) return;
        throw UserError(ExitCode::data, where_, "\"system\" and the first message are different system messages")
            .hint("one of them");
    }
    Json messages = Json::array({{{"role", "system"}, {"content", system}}});
    for (Json& message : chat_.messages) messages.push_back(std::move(message));
    chat_.messages = std::move(messages);
    chat_.may_be_learnt.insert(chat_.may_be_learnt.begin(), 0);
    chat_.forms.insert(chat_.forms.begin(), MessageForm());
}

void ChatReader::add_history(const Json& history, bool may_be_learnt) {
    if (!history.is_array()) throw UserError(ExitCode::data, where_, "\"history\" is not a list").hint(kHistoryForm);
    for (const Json& pair : history) {
        if (!pair.is_array() || pair.size() != 2)
            throw UserError(ExitCode::data, where_, "\"history\" is not a list of pairs: question, answer")
                .hint(kHistoryForm);
        add_text("user", text_at(pair[0], "history", where_), may_be_learnt);
        add_text("assistant", text_at(pair[1], "history", where_), may_be_learnt);
    }
}

void ChatReader::add_instruction(const Json& row, const FieldNames& names, bool may_be_learnt) {
    if (const Json* const history = find_member(row, {"history"}); history && !is_empty_text(*history))
        add_history(*history, may_be_learnt);
    const std::string input = optional_text(row, names.input, where_);
    add_text("user", optional_text(row, names.instruction, where_) + (input.empty() ? "" : "\n" + input),
             may_be_learnt);
}

void ChatReader::require_said(const Json& row, const std::string& key, bool by_assistant) const {
    const Json* const value = find_member(row, {key});
    if (!value || is_nothing(*value)) return;
    const auto is_said = [&](std::string_view text) {
        return std::ranges::any_of(chat_.messages, [&](const Json& message) {
            const auto content = message.find("content");
            return (message["role"] == "assistant") == by_assistant && content != message.end() &&
                   content->get_ref<const std::string&>().find(stripped(text)) != std::string::npos;
        });
    };
    bool agrees = false;
    if (value->is_array()) {
        ChatReader other(Json::object(), where_);
        other.add_all(*value, key);
        agrees = std::ranges::all_of(other.messages(), [&](const Json& message) {
            return std::ranges::find(chat_.messages, message) != chat_.messages.end();
        });
    } else {
        agrees = is_said(text_at(*value, key, where_));
    }
    if (!agrees)
        throw UserError(ExitCode::data, where_, "\"{}\" is not among the {}", printable(key),
                        by_assistant ? "answers of the conversation" : "questions of the conversation")
            .hint(jq_command(where_, fmt::format("del({})", jq_member(key))) + ", which keeps the conversation");
}

void ChatReader::require_agreement(const Json& row, const FieldNames& names, bool is_question) const {
    for (const std::string* key : {&names.prompt, &names.instruction, &names.input})
        require_said(row, *key, /*by_assistant=*/false);
    if (!is_question)
        for (const std::string* key : {&names.completion, &names.output})
            require_said(row, *key, /*by_assistant=*/true);
    const Json* const history = find_member(row, {"history"});
    if (!history || is_nothing(*history)) return;
    ChatReader other(Json::object(), where_);
    other.add_history(*history, true);
    for (const Json& message : other.messages())
        if (std::ranges::find(chat_.messages, message) == chat_.messages.end())
            throw UserError(ExitCode::data, where_, "\"history\" is not in the conversation")
                .hint(jq_command(where_, "del(.history)") + ", which keeps the conversation");
}

Chat ChatReader::take() {
    if (chat_.messages.empty())
        throw UserError(ExitCode::data, where_, "the conversation has no message")
            .hint(fmt::format("a question and an answer, as {}", kMessageForm));
    return std::move(chat_);
}

}  // namespace windlass
