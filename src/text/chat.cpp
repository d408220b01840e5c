#include "text/chat.h"

#include <algorithm>
#include <array>
#include <utility>

namespace windlass {
namespace {

constexpr std::string_view kOwnRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What sharegpt and others call them.
constexpr std::pair<std::string_view, std::string_view> kOtherRoles[] = {
    {"human", "user"},         {"gpt", "assistant"},           {"chatgpt", "assistant"},  {"bot", "assistant"},
    {"model", "assistant"},    {"observation", "tool"},        {"function", "tool"},      {"ipython", "tool"},
    {"tool_response", "tool"}, {"function_call", "assistant"}, {"tool_call", "assistant"}};

bool names_a_call(std::string_view role) {
    return role == "function_call" || role == "tool_call";
}

// What "Try: " shows.
constexpr const char* kMessageForm = R"({"role": "user", "content": "..."})";
constexpr const char* kCallForm = R"({"name": "...", "arguments": {}})";
constexpr const char* kToolsForm = R"("tools": [{"type": "function", "function": {"name": "...", "parameters": {}}}])";
constexpr const char* kHistoryForm = R"("history": [["question", "answer"]])";

std::string role_of(const std::string& role, std::string_view where) {
    if (std::ranges::find(kOwnRoles, role) != std::end(kOwnRoles)) return role;
    for (const auto& [other, own] : kOtherRoles)
        if (role == other) return std::string(own);
    throw UserError(ExitCode::data, where, "there is no role \"{}\"", role)
        .hint("system, user, assistant or tool (of sharegpt: human, gpt, observation, function_call)");
}

// One of these members, the first that is there.
const Json* find_member(const Json& object, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys)
        if (const auto entry = object.find(std::string(key)); entry != object.end()) return &*entry;
    return nullptr;
}

std::string text_at(const Json& value, std::string_view key, std::string_view where) {
    if (!value.is_string())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not a string", key, value.type_name())
            .hint(fmt::format("\"{}\": \"text\"", key));
    return value.get<std::string>();
}

// Templates print a call's arguments as JSON: text that holds an object would be quoted a second time.
void open_arguments(Json& call, std::string_view where) {
    Json& inner = call.contains("function") ? call["function"] : call;
    if (!inner.is_object())
        throw UserError(ExitCode::data, where, "a tool call is {} and not an object", inner.type_name())
            .hint(kCallForm);
    const auto arguments = inner.find("arguments");
    if (arguments == inner.end() || !arguments->is_string()) return;
    try {
        Json opened = parse_json(arguments->get_ref<const std::string&>(), where, ExitCode::data);
        if (opened.is_object()) *arguments = std::move(opened);
    } catch (const UserError&) {
        // Text that is no JSON stays what it is.
    }
}

Json call_of(Json call, std::string_view where) {
    if (!call.is_object())
        throw UserError(ExitCode::data, where, "a tool call is {} and not an object", call.type_name()).hint(kCallForm);
    if (!call.contains("function")) call = Json{{"type", "function"}, {"function", std::move(call)}};
    open_arguments(call, where);
    return call;
}

// sharegpt's function_call: the text of one call, or of a list of them.
Json calls_in_text(const std::string& text, std::string_view where) {
    Json calls = Json::array();
    Json parsed = parse_json(text, where, ExitCode::data);
    if (!parsed.is_array()) parsed = Json::array({std::move(parsed)});
    for (Json& call : parsed) calls.push_back(call_of(std::move(call), where));
    return calls;
}

// A list of parts that are all text, as the text that they make together.
Json joined_parts(Json content) {
    if (!content.is_array() || content.empty()) return content;
    std::string text;
    for (const Json& part : content) {
        if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return content;
        text += part["text"].get_ref<const std::string&>();
    }
    return text;
}

// Whether the row says that a message is learned, or not: "train", or OpenAI's "weight".
std::optional<bool> said_of_learning(const Json& message, std::string_view where) {
    if (const auto train = message.find("train"); train != message.end() && !train->is_null()) {
        if (!train->is_boolean())
            throw UserError(ExitCode::data, where, "\"train\" is not true or false")
                .hint("\"train\": false, without quotes");
        return train->get<bool>();
    }
    if (const auto weight = message.find("weight"); weight != message.end() && !weight->is_null()) {
        if (*weight != 0 && *weight != 1)
            throw UserError(ExitCode::data, where, "\"weight\" is neither 0 nor 1")
                .hint("\"weight\": 0 of an answer that is not learned, 1 of others");
        return *weight == 1;
    }
    return std::nullopt;
}

class ChatReader {
  public:
    explicit ChatReader(std::string_view where) : where_(where) {
        chat_.messages = Json::array();
        chat_.tools = nullptr;
    }

    void add(Json message, bool may_be_learnt = true) {
        const std::string place = fmt::format("{}: message {}", where_, chat_.messages.size() + 1);
        if (chat_.messages.size() == kChatMessagesMax)
            throw UserError(ExitCode::data, place, "a conversation has at most {} messages", kChatMessagesMax)
                .hint("cut it in several rows");
        if (!message.is_object())
            throw UserError(ExitCode::data, place, "is {} and not an object", message.type_name()).hint(kMessageForm);
        const std::optional<bool> said = said_of_learning(message, place);
        Json made = canonical(std::move(message), place);
        if (said.value_or(false) && made["role"] != "assistant")
            throw UserError(ExitCode::data, place, "\"train\" is true of a message that no model writes")
                .hint("train_turns: all, which learns every message");
        chat_.messages.push_back(std::move(made));
        chat_.may_be_learnt.push_back(may_be_learnt && said.value_or(true));
    }

    void add_all(const Json& list, std::string_view key, bool may_be_learnt = true) {
        if (!list.is_array())
            throw UserError(ExitCode::data, where_, "\"{}\" is {} and not a list", key, list.type_name())
                .hint(fmt::format("\"{}\": [{}]", key, kMessageForm));
        for (const Json& message : list) add(message, may_be_learnt);
    }

    void add_text(std::string_view role, const std::string& text, bool may_be_learnt = true) {
        add(Json{{"role", role}, {"content", text}}, may_be_learnt);
    }

    // A list of tools, or the text of one; nothing and empty text are none.
    void set_tools(const Json* tools) {
        if (!tools || tools->is_null() || *tools == "") return;
        Json list = *tools;
        if (list.is_string())
            list = parse_json(list.get<std::string>(), fmt::format("{}: tools", where_), ExitCode::data);
        if (!list.is_array())
            throw UserError(ExitCode::data, where_, "\"tools\" is {} and not a list", list.type_name())
                .hint(kToolsForm);
        for (Json& tool : list) {
            if (!tool.is_object())
                throw UserError(ExitCode::data, where_, "a tool is {} and not an object", tool.type_name())
                    .hint(kToolsForm);
            if (!tool.contains("function") && !tool.contains("type"))
                tool = Json{{"type", "function"}, {"function", std::move(tool)}};
        }
        if (!list.empty()) chat_.tools = std::move(list);
    }

    Chat take() {
        if (chat_.messages.empty())
            throw UserError(ExitCode::data, where_, "the conversation has no message")
                .hint(fmt::format("a question and an answer, as {}", kMessageForm));
        return std::move(chat_);
    }

  private:
    // {"role", "content", ...}, whatever its members are called; those that are ours alone are taken out.
    static Json canonical(Json message, std::string_view place) {
        const Json* role = find_member(message, {"role", "from"});
        if (!role) throw UserError(ExitCode::data, place, "has neither \"role\" nor \"from\"").hint(kMessageForm);
        const std::string said = text_at(*role, "role", place);
        const Json* content = find_member(message, {"content", "value"});
        Json made = {{"role", role_of(said, place)}};
        if (names_a_call(said)) {
            if (!content) throw UserError(ExitCode::data, place, "the call has no \"value\"").hint(kCallForm);
            made["content"] = "";
            made["tool_calls"] = calls_in_text(text_at(*content, "value", place), place);
            return made;
        }
        if ((!content || content->is_null()) && !message.contains("tool_calls"))
            throw UserError(ExitCode::data, place, "has neither \"content\" nor \"value\"").hint(kMessageForm);
        // What is null is not there, as transformers has it: of OpenAI's "content" of a call many templates would write
        // "None".
        if (content && !content->is_null()) made["content"] = joined_parts(*content);
        for (auto& [key, value] : message.items()) {
            const bool is_done =
                key == "role" || key == "from" || key == "content" || key == "value" || value.is_null();
            if (!is_done && key != "train" && key != "weight") made[key] = std::move(value);
        }
        if (const auto calls = made.find("tool_calls"); calls != made.end() && calls->is_array())
            for (Json& call : *calls) call = call_of(std::move(call), place);
        return made;
    }

    std::string_view where_;
    Chat chat_;
};

bool is_said(const Json* value) {
    return value && !value->is_null() && !(value->is_string() && value->get_ref<const std::string&>().empty());
}

void read_messages(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    if (const Json* system = find_member(row, {"system"}); is_said(system))
        reader.add_text("system", text_at(*system, "system", where));
    for (const std::string& key : {names.messages, std::string("messages"), std::string("conversations")})
        if (const auto list = row.find(key); list != row.end()) return reader.add_all(*list, key);
    // A prompt and a completion that are lists of messages, as TRL has them.
    reader.add_all(row[names.prompt], names.prompt, /*may_be_learnt=*/false);
    reader.add_all(row[names.completion], names.completion);
}

// LLaMA-Factory's: "system" is first, "history" is a list of [question, answer].
void read_alpaca_chat(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    const auto text = [&](const std::string& key) {
        const auto entry = row.find(key);
        return entry == row.end() || entry->is_null() ? "" : text_at(*entry, key, where);
    };
    if (const std::string system = text("system"); !system.empty()) reader.add_text("system", system);
    if (const Json* history = find_member(row, {"history"}); history && !history->is_null()) {
        if (!history->is_array())
            throw UserError(ExitCode::data, where, "\"history\" is not a list").hint(kHistoryForm);
        for (const Json& pair : *history) {
            if (!pair.is_array() || pair.size() != 2)
                throw UserError(ExitCode::data, where, "\"history\" is not a list of pairs: question, answer")
                    .hint(kHistoryForm);
            reader.add_text("user", text_at(pair[0], "history", where));
            reader.add_text("assistant", text_at(pair[1], "history", where));
        }
    }
    const std::string input = text(names.input);
    reader.add_text("user", text(names.instruction) + (input.empty() ? "" : "\n" + input));
    reader.add_text("assistant", text(names.output));
}

// What is before an answer: a prompt or a conversation, an instruction, or nothing, where the answer is a whole
// conversation itself.
void read_question(const Json& row, const FieldNames& names, ChatReader& reader, std::string_view where) {
    if (const Json* system = find_member(row, {"system"}); is_said(system))
        reader.add_text("system", text_at(*system, "system", where));
    for (const std::string& key : {names.messages, std::string("messages"), std::string("conversations")})
        if (const auto list = row.find(key); list != row.end()) return reader.add_all(*list, key, false);
    if (const auto instruction = row.find(names.instruction); instruction != row.end()) {
        const Json* input = find_member(row, {names.input});
        const std::string more = is_said(input) ? "\n" + text_at(*input, names.input, where) : "";
        return reader.add_text("user", text_at(*instruction, names.instruction, where) + more, false);
    }
    const auto prompt = row.find(names.prompt);
    if (prompt != row.end() && prompt->is_array()) reader.add_all(*prompt, names.prompt, false);
}

Chat read_answer(const Json& row, const char* key, const FieldNames& names, std::string_view where) {
    ChatReader reader(where);
    reader.set_tools(find_member(row, {"tools", "functions"}));
    read_question(row, names, reader, where);
    const Json& answer = row[key];
    if (answer.is_array())
        reader.add_all(answer, key);
    else if (answer.is_object())
        reader.add(answer);
    else
        reader.add_text("assistant", text_at(answer, key, where));
    Chat chat = reader.take();
    if (chat.messages.size() < 2 || !chat.is_answer(chat.messages.size() - 1))
        throw UserError(ExitCode::data, where, "\"{}\" does not end a conversation by an assistant's answer", key)
            .hint(R"({"role": "assistant", "content": "..."} as its last message, after a question)");
    return chat;
}

}  // namespace

ChatPair read_chat_pair(std::string_view json, const FieldNames& names, std::string_view where) {
    const Json row = parse_json(json, where, ExitCode::data);
    return {read_answer(row, "chosen", names, where), read_answer(row, "rejected", names, where)};
}

Chat read_chat(std::string_view json, RowFormat format, const FieldNames& names, std::string_view where) {
    const Json row = parse_json(json, where, ExitCode::data);
    ChatReader reader(where);
    reader.set_tools(find_member(row, {"tools", "functions"}));
    if (format == RowFormat::alpaca)
        read_alpaca_chat(row, names, reader, where);
    else
        read_messages(row, names, reader, where);
    return reader.take();
}

}  // namespace windlass
