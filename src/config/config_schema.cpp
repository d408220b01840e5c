#include "config/config_schema.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "config/config_keys.h"
#include "config/config_readers.h"

namespace windlass {
namespace {

constexpr std::string_view kSizePattern = "^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)? *(%|B|[kK]B|[MGT]B|[KMGT]|[KMGT]iB)$";

// YAML reads true and false as no text, so a choice that is one of them is a boolean.
Json choice_value(std::string_view choice) {
    if (choice == "true" || choice == "false") return choice == "true";
    return choice;
}

Json enum_of(const ConfigKey& key) {
    Json values = Json::array();
    for (const std::string_view choice : key.choices) values.push_back(choice_value(choice));
    return {{"enum", values}};
}

// 4000000000, not 4000000000.0.
Json bound(double value) {
    const auto whole = static_cast<int64_t>(value);
    return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

Json number_of(const ConfigKey& key, std::string_view type) {
    Json schema = {{"type", type}};
    if (std::isfinite(key.min)) schema["minimum"] = bound(key.min);
    if (std::isfinite(key.max)) schema["maximum"] = bound(key.max);
    return schema;
}

// A number, or the word for none; null is read as that word.
Json optional_number_of(const ConfigKey& key, std::string_view type) {
    Json schema = number_of(key, type);
    if (key.empty != "null") return {{"anyOf", Json::array({schema, {{"enum", Json::array({key.empty, Json()})}}})}};
    schema["type"] = Json::array({type, "null"});
    return schema;
}

// Numbers are read as the texts that they are written as: resume: 200.
Json text_of(const ConfigKey& key) {
    if (!key.choices.empty()) return enum_of(key);
    return {{"type", Json::array({"string", "number", "null"})}};
}

// The values of {q_proj: 8}.
Json pairs_schema(Pairs pairs) {
    const Json one = {{"type", Json::array({"string", "number"})}};
    if (pairs == Pairs::one_value) return one;
    return {{"anyOf", Json::array({one, {{"type", "array"}, {"items", one}, {"minItems", 1}}})}};
}

// One value may be written without brackets.
Json list_of(const ConfigKey& key) {
    if (!key.choices.empty()) {
        const Json one = enum_of(key);
        return {{"anyOf", Json::array({one, {{"type", "array"}, {"items", one}}})}};
    }
    Json types = {"array", "string", "number", "null"}, items = {"string", "number"};
    if (key.name == "param_groups") items.push_back("object");
    Json schema = {{"type", types}, {"items", {{"type", items}}}};
    if (key.pairs != Pairs::none) {
        schema["type"].push_back("object");
        schema["additionalProperties"] = pairs_schema(key.pairs);
    }
    return schema;
}

template <typename... Fs>
struct KeyTypes : Fs... {
    using Fs::operator()...;
};
template <typename... Fs>
KeyTypes(Fs...) -> KeyTypes<Fs...>;

Json type_schema(const ConfigKey& key) {
    return std::visit(KeyTypes{
                          [&](std::string Config::*) { return text_of(key); },
                          [&](std::vector<std::string> Config::*) { return list_of(key); },
                          // A small number without a unit is refused (parse_bytes).
                          [](ByteLimit Config::*) -> Json {
                              return {{"type", Json::array({"string", "integer", "null"})},
                                      {"pattern", kSizePattern},
                                      {"minimum", kMiB}};
                          },
                          [](bool Config::*) -> Json {
                              return {{"type", "boolean"}};
                          },
                          [&](int64_t Config::*) { return number_of(key, "integer"); },
                          [&](double Config::*) { return number_of(key, "number"); },
                          [&](std::optional<int64_t> Config::*) { return optional_number_of(key, "integer"); },
                          [&](std::optional<double> Config::*) { return optional_number_of(key, "number"); },
                      },
                      key.field);
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

Json property_of(const ConfigKey& key, const std::vector<std::string>& suggested) {
    Json schema = {
        {"description", key.unit.empty() ? std::string(key.help) : fmt::format("{} ({})", key.help, key.unit)}};
    schema.update(type_schema(key));
    schema["default"] = config_value_json(key, Config());
    if (!suggested.empty()) schema["examples"] = suggested;
    if (key.names_files) schema["format"] = "path";
    schema["group"] = key.group;
    if (!key.aliases.empty()) schema["aliases"] = key.aliases;
    schema["verbs"] = verbs_of_readers(readers_of_key(key.name));
    return schema;
}

}  // namespace

Json config_value_json(const ConfigKey& key, const Config& config) {
    return std::visit(KeyTypes{
                          [&](std::string Config::*field) -> Json {
                              return key.choices.empty() ? text_or_null(config.*field) : choice_value(config.*field);
                          },
                          [&](ByteLimit Config::*field) { return text_or_null((config.*field).text); },
                          [&]<typename Number>(std::optional<Number> Config::*field) -> Json {
                              if (config.*field) return *(config.*field);
                              return key.empty == "null" ? Json() : Json(key.empty);
                          },
                          [&](double Config::*field) { return bound(config.*field); },
                          [&](auto field) -> Json { return config.*field; },
                      },
                      key.field);
}

Json changed_settings_json(const Config& config) {
    static const Config kDefaults;
    Json settings = Json::object();
    for (const ConfigKey& key : config_keys())
        if (config_value_text(key, config) != config_value_text(key, kDefaults))
            settings[std::string(key.name)] = config_value_json(key, config);
    return settings;
}

Json config_schema(const SuggestedValues& suggested) {
    Json properties = Json::object();
    for (const ConfigKey& key : config_keys())
        properties[std::string(key.name)] = property_of(key, suggested(key.name));
    for (const ConfigKey& key : config_keys())
        for (const std::string_view alias : key.aliases)
            properties[std::string(alias)] = {{"description", fmt::format("the same as {}", key.name)},
                                              {"$ref", fmt::format("#/properties/{}", key.name)}};
    return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
            {"title", "Configuration of Windlass"},
            {"description", "run.yaml: the settings of a run"},
            {"type", "object"},
            {"properties", properties},
            {"additionalProperties", false}};
}

}  // namespace windlass
