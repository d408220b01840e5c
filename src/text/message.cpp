#include "text/message.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/tool_call.h"

namespace windlass {
namespace {

constexpr std::string_view kOwnRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What sharegpt and others call them.
constexpr std::pair<std::string_view, std::string_view> kOtherRoles[] = {
    {"human", "user"},         {"gpt", "assistant"},           {"chatgpt", "assistant"},  {"bot", "assistant"},
    {"model", "assistant"},    {"observation", "tool"},        {"function", "tool"},      {"ipython", "tool"},
    {"tool_response", "tool"}, {"function_call", "assistant"}, {"tool_call", "assistant"}};

// Whether a message is trained, as one trainer or another writes it.
constexpr std::string_view kTrainKeys[] = {"train", "weight", "loss", "training", "trainable"};
// What no template writes, and what would change which part of a message is trained.
constexpr std::string_view kMediaKeys[] = {"image", "images", "image_url", "video", "videos", "audio", "audios"};
constexpr std::string_view kDetailKeys[] = {"train_detail", "training_detail"};
// Types of parts that are text, of the APIs of OpenAI.
constexpr std::string_view kTextTypes[] = {"text", "input_text", "output_text"};

template <size_t size>
bool is_among(std::string_view key, const std::string_view (&list)[size]) {
    return std::ranges::find(list, key) != std::end(list);
}

bool names_a_call(std::string_view role) {
    return role == "function_call" || role == "tool_call";
}

bool is_nothing(const Json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().empty();
    return value.is_null() || (value.is_structured() && value.empty());
}

std::string role_of(const std::string& role, std::string_view where) {
    if (is_among(role, kOwnRoles)) return role;
    for (const auto& [other, own] : kOtherRoles)
        if (role == other) return std::string(own);
    throw UserError(ExitCode::data, where, "there is no role \"{}\"", printable(role))
        .hint("system, user, assistant or tool (of sharegpt: human, gpt, observation, function_call)");
}

// The member under one of two keys. Where both are there they must be equal.
const Json* either_member(const Json& object, std::string_view first, std::string_view second, std::string_view place) {
    const Json* const one = find_member(object, {first});
    const Json* const other = find_member(object, {second});
    if (one && other && *one != *other)
        throw UserError(ExitCode::data, place, "\"{}\" and \"{}\" are not the same", first, second)
            .hint(fmt::format("one of them, as {}", kMessageForm));
    return one ? one : other;
}

// Whether the row says that a message is trained, or not: true and false, or 1 and 0.
std::optional<bool> said_of_training(const Json& message, std::string_view place) {
    std::optional<bool> said;
    for (const std::string_view key : kTrainKeys) {
        const Json* const value = find_member(message, {key});
        if (!value) continue;
        if (!value->is_boolean() && *value != 0 && *value != 1)
            throw UserError(ExitCode::data, place, "\"{}\" is {}", key,
                            key == "train" ? "not true or false" : "neither 0 nor 1")
                .hint(fmt::format("\"{}\": {} of an answer that is not trained", key,
                                  key == "train" ? "false, without quotes," : "0"));
        const bool is_trained = value->is_boolean() ? value->get<bool>() : *value == 1;
        if (said && *said != is_trained)
            throw UserError(ExitCode::data, place, "\"{}\" contradicts another member on whether it is trained", key)
                .hint("\"train\" alone");
        said = is_trained;
    }
    return said;
}

void refuse_what_is_no_text(const Json& message, std::string_view place) {
    for (const auto& [key, value] : message.items()) {
        if (is_nothing(value)) continue;
        if (is_among(key, kMediaKeys))
            throw UserError(ExitCode::data, place, "\"{}\": pictures, sound and films are not trained", key)
                .hint("messages of text alone");
        if (is_among(key, kDetailKeys))
            throw UserError(ExitCode::data, place, "\"{}\": a message is trained whole or not at all", key)
                .hint("\"train\": false in messages that are not to be trained");
    }
}

// Adds the calls of OpenAI's older "function_call", of sharegpt's roles, and of "tool_calls".
bool take_calls(Json& message, const Json& tools, std::string_view place) {
    bool had_empty = false;
    if (const Json* const old = find_member(message, {"function_call"})) {
        if (!find_member(message, {"tool_calls"})) message["tool_calls"] = Json::array({*old});
        message.erase("function_call");
    }
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) return false;
    if (calls->is_string()) *calls = calls_in_text(calls->get<std::string>(), place);
    if (!calls->is_array()) {
        throw UserError(ExitCode::data, place, "\"tool_calls\" is {} and not a list", calls->type_name())
            .hint(kCallForm);
    }
    for (Json& call : *calls) {
        call = call_of(std::move(call), place);
        had_empty |= drop_empty_members_of_call(call, tools);
    }
    if (calls->empty()) message.erase(calls);
    return had_empty;
}

}  // namespace

const Json* find_member(const Json& object, std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys)
        if (const auto entry = object.find(std::string(key)); entry != object.end() && !entry->is_null())
            return &*entry;
    return nullptr;
}

std::string text_at(const Json& value, std::string_view key, std::string_view where) {
    if (!value.is_string())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not a string", key, value.type_name())
            .hint(fmt::format("\"{}\": \"text\"", key));
    return value.get<std::string>();
}

std::string text_of_content(const Json& content, std::string_view key, std::string_view place) {
    if (!content.is_array()) return text_at(content, key, place);
    std::string text;
    for (const Json& part : content) {
        if (part.is_string()) {
            text += part.get_ref<const std::string&>();
            continue;
        }
        const Json* const type = part.is_object() ? find_member(part, {"type"}) : nullptr;
        const Json* const words = part.is_object() ? find_member(part, {"text"}) : nullptr;
        const bool is_text_type =
            !type || (type->is_string() && is_among(type->get_ref<const std::string&>(), kTextTypes));
        if (!is_text_type || !words || !words->is_string())
            throw UserError(
                ExitCode::data, place, "\"{}\" has a part that is not text ({})", key,
                type && type->is_string() ? printable(type->get_ref<const std::string&>()) : part.type_name())
                .hint("rows of text alone: pictures, sound and films are not trained");
        refuse_what_is_no_text(part, place);
        text += words->get_ref<const std::string&>();
    }
    return text;
}

Message read_message(Json message, const Json& tools, std::string_view place) {
    if (!message.is_object())
        throw UserError(ExitCode::data, place, "is {} and not an object", message.type_name()).hint(kMessageForm);
    const Json* const role = either_member(message, "role", "from", place);
    if (!role) throw UserError(ExitCode::data, place, "has neither \"role\" nor \"from\"").hint(kMessageForm);
    const std::string said = text_at(*role, "role", place);
    const Json* const content = either_member(message, "content", "value", place);
    refuse_what_is_no_text(message, place);
    Message made{.json = {{"role", role_of(said, place)}}, .is_trained = said_of_training(message, place)};
    if (names_a_call(said)) {
        if (!content) throw UserError(ExitCode::data, place, "the call has no \"value\"").hint(kCallForm);
        made.json["content"] = "";
        made.json["tool_calls"] = calls_in_text(text_at(*content, "value", place), place);
        return made;
    }
    // What is null is not there, as transformers has it: of OpenAI's "content" of a call many templates would write
    // "None".
    if (content) made.json["content"] = text_of_content(*content, "content", place);
    for (auto& [key, value] : message.items()) {
        const bool is_done = key == "role" || key == "from" || key == "content" || key == "value" || value.is_null();
        if (is_done || is_among(key, kTrainKeys) || is_among(key, kMediaKeys) || is_among(key, kDetailKeys)) continue;
        const bool is_call = key == "tool_calls" || key == "function_call";
        if (!is_call) made.had_empty_members |= drop_empty_members(value);
        made.json[key] = std::move(value);
    }
    made.had_empty_members |= take_calls(made.json, tools, place);
    if (!made.json.contains("content") && !made.json.contains("tool_calls"))
        throw UserError(ExitCode::data, place, "has neither \"content\" nor \"value\"").hint(kMessageForm);
    return made;
}

}  // namespace windlass
