#include "rows/tool_call.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"

namespace windlass {
namespace {

constexpr const char* kToolsForm = R"("tools": [{"type": "function", "function": {"name": "...", "parameters": {}}}])";

// Members of a JSON schema whose null is a value of its own.
bool holds_a_value(std::string_view key) {
    return key == "default" || key == "const";
}

// In time that grows with the number of members: erasing one at a time would move all others each time.
template <typename Condition>
bool erase_members(Json& object, const Condition& goes) {
    auto& members = object.get_ref<Json::object_t&>();
    if (std::ranges::none_of(members, [&](const auto& member) { return goes(member.first, member.second); }))
        return false;
    Json::object_t kept;
    for (auto& [key, value] : members)
        if (!goes(key, value)) kept.emplace_back(key, std::move(value));
    members = std::move(kept);
    return true;
}

bool is_null_member(std::string_view, const Json& value) {
    return value.is_null();
}

// An object of a table of Arrow has many members that are null; one that a person wrote has at most the default.
bool drop_empty_members_of_schema(Json& value) {
    bool dropped = false;
    if (value.is_object()) {
        dropped = erase_members(
            value, [](const std::string& key, const Json& member) { return member.is_null() && !holds_a_value(key); });
        if (dropped) erase_members(value, is_null_member);
        for (Json& member : value) dropped |= drop_empty_members_of_schema(member);
    } else if (value.is_array()) {
        for (Json& item : value) dropped |= drop_empty_members_of_schema(item);
    }
    return dropped;
}

bool allows_null(const Json& schema) {
    if (!schema.is_object()) return false;
    for (const auto& [key, value] : schema.items()) {
        if (holds_a_value(key) && value.is_null()) return true;
        if (key == "nullable" && value == true) return true;
        if (key == "type" &&
            (value == "null" || (value.is_array() && std::ranges::find(value, Json("null")) != value.end())))
            return true;
        if (key == "enum" && value.is_array() && std::ranges::find(value, Json()) != value.end()) return true;
        if ((key == "anyOf" || key == "oneOf") && value.is_array() && std::ranges::any_of(value, allows_null))
            return true;
    }
    return false;
}

const Json& no_json() {
    static const Json kNone;
    return kNone;
}

const Json& member_of(const Json& object, const char* key) {
    if (!object.is_object()) return no_json();
    const auto entry = object.find(key);
    return entry == object.end() ? no_json() : *entry;
}

using Schemas = std::unordered_map<std::string_view, const Json*>;

Schemas schemas_of(const Json& properties) {
    Schemas made;
    if (properties.is_object())
        for (const auto& [key, schema] : properties.get_ref<const Json::object_t&>()) made.emplace(key, &schema);
    return made;
}

// Of arguments, which this schema describes.
bool drop_empty_arguments(Json& value, const Json& schema) {
    bool dropped = false;
    if (value.is_object()) {
        const Schemas schemas = schemas_of(member_of(schema, "properties"));
        const auto schema_for = [&](const std::string& key) -> const Json& {
            const auto found = schemas.find(key);
            return found == schemas.end() ? no_json() : *found->second;
        };
        dropped = erase_members(value, [&](const std::string& key, const Json& member) {
            return member.is_null() && !allows_null(schema_for(key));
        });
        for (auto& [key, member] : value.get_ref<Json::object_t&>())
            dropped |= drop_empty_arguments(member, schema_for(key));
    } else if (value.is_array()) {
        for (Json& item : value) dropped |= drop_empty_arguments(item, member_of(schema, "items"));
    }
    return dropped;
}

const Json& schema_of(const Json& name, const Json& tools) {
    if (!tools.is_array()) return no_json();
    for (const Json& tool : tools) {
        const Json& function = tool.contains("function") ? tool["function"] : tool;
        if (member_of(function, "name") == name) return member_of(function, "parameters");
    }
    return no_json();
}

// Templates print a call's arguments as JSON: text that holds an object would be quoted a second time. The text, where
// it was one.
std::string open_arguments(Json& function, std::string_view where) {
    const auto arguments = function.find("arguments");
    if (arguments == function.end()) return "";
    if (arguments->is_null() || *arguments == "" || *arguments == "null") *arguments = Json::object();
    if (!arguments->is_string()) return "";
    try {
        std::string text = arguments->get<std::string>();
        Json opened = parse_json_with_digits(text, where, ExitCode::data);
        if (opened.is_object()) {
            *arguments = std::move(opened);
            return text;
        }
    } catch (const UserError&) {
        // said below
    }
    throw UserError(ExitCode::data, where, "the arguments of a tool call are text that is not a JSON object")
        .hint(kCallForm);
}

}  // namespace

bool drop_empty_members(Json& value) {
    bool dropped = false;
    if (value.is_object()) {
        dropped = erase_members(value, is_null_member);
        for (Json& member : value) dropped |= drop_empty_members(member);
    } else if (value.is_array()) {
        for (Json& item : value) dropped |= drop_empty_members(item);
    }
    return dropped;
}

Json call_of(Json call, std::string_view where) {
    if (!call.is_object())
        throw UserError(ExitCode::data, where, "a tool call is {} and not an object", call.type_name()).hint(kCallForm);
    if (!call.contains("function")) call = Json{{"type", "function"}, {"function", std::move(call)}};
    const Json& function = call["function"];
    if (!function.is_object())
        throw UserError(ExitCode::data, where, "a tool call is {} and not an object", function.type_name())
            .hint(kCallForm);
    const Json& name = member_of(function, "name");
    if (!name.is_string() || name == "")
        throw UserError(ExitCode::data, where, "a tool call has no \"name\"").hint(kCallForm);
    if (function.contains("arguments")) return call;
    for (const char* other : {"args", "parameters", "params", "input", "kwargs"})
        if (!is_nothing(member_of(function, other)))
            throw UserError(ExitCode::data, where, "a tool call has \"{}\" in place of \"arguments\"", other)
                .hint(kCallForm);
    return call;
}

bool is_made_of_nulls(const Json& value) {
    return value.is_null() || (value.is_structured() && !value.empty() && std::ranges::all_of(value, is_made_of_nulls));
}

OpenedCall open_call(Json& call, const Json& tools, std::string_view where) {
    bool dropped = erase_members(call, is_null_member);
    Json& function = call["function"];
    std::string text = open_arguments(function, where);
    dropped |= erase_members(function, is_null_member);
    if (!text.empty()) return {dropped, std::move(text)};
    const Json& schema = schema_of(member_of(function, "name"), tools);
    for (auto& [key, value] : function.get_ref<Json::object_t&>())
        dropped |= key == "arguments" ? drop_empty_arguments(value, schema) : drop_empty_members(value);
    return {dropped, ""};
}

Json calls_in_text(const std::string& text, std::string_view where) {
    Json calls = Json::array();
    Json parsed = parse_json_with_digits(text, where, ExitCode::data);
    if (!parsed.is_array()) parsed = Json::array({std::move(parsed)});
    for (Json& call : parsed) calls.push_back(call_of(std::move(call), where));
    return calls;
}

ToolList read_tools(const Json* value, std::string_view key, std::string_view where) {
    if (!value || is_nothing(*value)) return {};
    Json list = *value;
    const bool was_text = list.is_string();
    if (was_text)
        list = parse_json_with_digits(list.get<std::string>(), fmt::format("{}: {}", where, key), ExitCode::data);
    if (!list.is_array())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not a list", key, list.type_name()).hint(kToolsForm);
    ToolList made;
    list.erase(std::remove_if(list.begin(), list.end(), is_nothing<Json>), list.end());
    for (Json& tool : list) {
        // One of a list may be the text of a tool.
        if (tool.is_string() && tool.get_ref<const std::string&>().starts_with('{'))
            tool = parse_json_with_digits(tool.get<std::string>(), fmt::format("{}: {}", where, key), ExitCode::data);
        else if (!was_text)
            made.had_empty_members |= drop_empty_members_of_schema(tool);
        if (!tool.is_object())
            throw UserError(ExitCode::data, where, "a tool is {} and not an object", tool.type_name()).hint(kToolsForm);
        if (!tool.contains("function") && !tool.contains("type"))
            tool = Json{{"type", "function"}, {"function", std::move(tool)}};
    }
    if (!list.empty()) made.tools = std::move(list);
    return made;
}

}  // namespace windlass
