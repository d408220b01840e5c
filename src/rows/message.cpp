#include "rows/message.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "jinja/reasoning_keys.h"
#include "rows/not_finite.h"
#include "rows/tool_call.h"

namespace windlass {
namespace {

constexpr std::string_view kOwnRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What sharegpt and others call them.
constexpr std::pair<std::string_view, std::string_view> kOtherRoles[] = {
    {"human", "user"},         {"gpt", "assistant"},           {"chatgpt", "assistant"},  {"bot", "assistant"},
    {"model", "assistant"},    {"observation", "tool"},        {"function", "tool"},      {"ipython", "tool"},
    {"tool_response", "tool"}, {"function_call", "assistant"}, {"tool_call", "assistant"}};

// Whether a message is trained, as one trainer or another writes it: true and false, or 1 and 0.
constexpr std::string_view kTrainKeys[] = {"train",     "weight",         "loss",        "training",   "trainable",
                                           "need_loss", "calculate_loss", "loss_weight", "loss_scale", "sample_weight"};
// The same the other way round.
constexpr std::string_view kMaskKeys[] = {"masked", "mask", "ignore"};
// Which part of a message is trained.
constexpr std::string_view kDetailKeys[] = {"train_detail", "training_detail", "loss_mask"};
// What no template of a model that reads text writes.
constexpr std::string_view kMediaKeys[] = {
    "image", "images", "image_url", "image_path", "image_paths", "input_image", "video",       "videos",    "video_url",
    "audio", "audios", "audio_url", "file",       "files",       "input_audio", "attachments", "input_file"};
// Types of parts that are text, of the APIs of OpenAI.
constexpr std::string_view kTextTypes[] = {"text", "input_text", "output_text"};

template <size_t size>
bool is_among(std::string_view key, const std::string_view (&list)[size]) {
    return std::ranges::find(list, key) != std::end(list);
}

bool names_a_call(std::string_view role) {
    return role == "function_call" || role == "tool_call";
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

// 1 or 0, however it is written. `off`: how this key says that an answer is not trained.
bool flag_of(const Json& value, std::string_view key, std::string_view off, std::string_view place) {
    if (value.is_boolean()) return value.get<bool>();
    if (value == 0 || value == 1) return value == 1;
    throw UserError(ExitCode::data, place, "\"{}\" is {}", key,
                    key == "train" ? "not true or false" : "neither 0 nor 1")
        .hint(fmt::format("\"{}\": {} of an answer that is not trained", key, off));
}

// Whether the row says that a message is trained, or not.
std::optional<bool> said_of_training(const Json& message, std::string_view place) {
    std::optional<bool> said;
    const auto hear = [&](std::string_view key, bool is_trained) {
        if (said && *said != is_trained)
            throw UserError(ExitCode::data, place, "\"{}\" contradicts another member on whether it is trained", key)
                .hint("\"train\" alone");
        said = is_trained;
    };
    for (const std::string_view key : kTrainKeys)
        if (const Json* const value = find_member(message, {key}))
            hear(key, flag_of(*value, key, key == "train" ? "false, without quotes," : "0", place));
    for (const std::string_view key : kMaskKeys)
        if (const Json* const value = find_member(message, {key})) hear(key, !flag_of(*value, key, "1", place));
    if (const Json* const label = find_member(message, {"label"}); label && label->is_boolean())
        hear("label", label->get<bool>());
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

// What one member says and another one contradicts.
void require_one_reasoning(const Json& message, std::string_view place) {
    const Json* first = nullptr;
    for (const std::string_view key : kSharedReasoningKeys) {
        const Json* const value = find_member(message, {key});
        if (!value || is_nothing(*value)) continue;
        if (first && *first != *value)
            throw UserError(ExitCode::data, place, "\"{}\" is not the reasoning of another member", key)
                .hint("\"reasoning_content\" alone");
        first = value;
    }
}

// Null, empty, or made of nulls. A list of empty calls is not.
bool is_no_value(const Json& value) {
    return value == "" || (value.is_structured() && value.empty()) || is_made_of_nulls(value);
}

// Adds the calls of OpenAI's older "function_call", of sharegpt's roles, and of "tool_calls".
void take_calls(Message& made, const Json& tools, std::string_view place) {
    Json& message = made.json;
    Json calls = message.value("tool_calls", Json::array());
    if (is_no_value(calls)) calls = Json::array();
    if (calls.is_string()) calls = calls_in_text(calls.get<std::string>(), place);
    if (!calls.is_array())
        throw UserError(ExitCode::data, place, "\"tool_calls\" is {} and not a list", calls.type_name())
            .hint(kCallForm);
    calls.erase(std::remove_if(calls.begin(), calls.end(), is_made_of_nulls), calls.end());
    const Json old = message.value("function_call", Json());
    const bool has_old = !is_no_value(old);
    message.erase("tool_calls");
    message.erase("function_call");
    if (has_old && calls.empty()) calls.push_back(old);
    for (Json& call : calls) {
        call = call_of(std::move(call), place);
        OpenedCall opened = open_call(call, tools, place);
        made.had_empty_members |= opened.had_empty_members;
        made.form.call_texts.push_back(std::move(opened.arguments_text));
    }
    if (has_old) {
        Json other = call_of(old, place);
        open_call(other, tools, place);
        if (calls.size() != 1 || calls[0]["function"] != other["function"])
            throw UserError(ExitCode::data, place, "\"function_call\" and \"tool_calls\" are not the same")
                .hint("\"tool_calls\" alone");
    }
    if (calls.empty()) return;
    if (message["role"] != "assistant")
        throw UserError(ExitCode::data, place, "a message that no model writes has calls of tools")
            .hint("the calls in an assistant's message");
    message["tool_calls"] = std::move(calls);
}

// The role as the row writes it. Where two members say it they must mean the same.
std::string role_in(const Json& message, std::string_view place) {
    const Json *const role = find_member(message, {"role"}), *const from = find_member(message, {"from"});
    if (!role && !from) throw UserError(ExitCode::data, place, "has neither \"role\" nor \"from\"").hint(kMessageForm);
    const std::string said = text_at(role ? *role : *from, "role", place);
    if (role && from && role_of(text_at(*from, "from", place), place) != role_of(said, place))
        throw UserError(ExitCode::data, place, "\"role\" and \"from\" are not the same").hint(kMessageForm);
    return said;
}

// What else the template may read, without what only says how the message is trained.
void take_other_members(Json& message, Json& made) {
    for (auto& [key, value] : message.get_ref<Json::object_t&>()) {
        const bool is_done = key == "role" || key == "from" || key == "content" || key == "value" || value.is_null();
        const bool is_ours = is_among(key, kTrainKeys) || is_among(key, kMaskKeys) || is_among(key, kMediaKeys) ||
                             is_among(key, kDetailKeys);
        if (is_done || is_ours || made.contains(key)) continue;
        if (key != "tool_calls" && key != "function_call") drop_empty_members(value);
        made[key] = std::move(value);
    }
}

// Parts are trained with their message, and hold text.
void refuse_flags_of_part(const Json& part, std::string_view place) {
    if (said_of_training(part, place).value_or(true)) return;
    throw UserError(ExitCode::data, place, "a part that is not to be trained: a message is trained whole or not at all")
        .hint("\"train\": false in messages that are not to be trained");
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
        if (is_nothing(part)) continue;
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
        refuse_flags_of_part(part, place);
        text += words->get_ref<const std::string&>();
    }
    return text;
}

Message read_message(Json message, const Json& tools, std::string_view place) {
    if (!message.is_object())
        throw UserError(ExitCode::data, place, "is {} and not an object", message.type_name()).hint(kMessageForm);
    const std::string said = role_in(message, place);
    const Json* const content = either_member(message, "content", "value", place);
    refuse_what_is_no_text(message, place);
    require_one_reasoning(message, place);
    Message made{.json = {{"role", role_of(said, place)}}, .is_trained = said_of_training(message, place)};
    const bool is_call = names_a_call(said);
    if (is_call) {
        if (!content) throw UserError(ExitCode::data, place, "the call has no \"value\"").hint(kCallForm);
        made.json["content"] = "";
        made.json["tool_calls"] = calls_in_text(text_at(*content, "value", place), place);
    } else if (content) {
        // What is null is not there: of OpenAI's "content" of a call many templates would write "None". Those that ask
        // for it get it (rows/chat_format.h).
        made.json["content"] = text_of_content(*content, "content", place);
    }
    take_other_members(message, made.json);
    if (const Json* const calls = find_member(made.json, {"tool_calls", "function_call"}))
        refuse_not_finite_in(*calls, "tool_calls", place);
    take_calls(made, tools, place);
    made.form.has_null_content = !content && message.contains("content");
    if (made.json.contains("content") || made.json.contains("tool_calls")) return made;
    // An answer of nothing is no fault of the row: it is not trained.
    if (made.json["role"] != "assistant" || !message.contains("content"))
        throw UserError(ExitCode::data, place, "has neither \"content\" nor \"value\"").hint(kMessageForm);
    made.json["content"] = "";
    return made;
}

}  // namespace windlass
