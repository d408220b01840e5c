#include "config/config_values.h"

#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/units.h"

namespace windlass {
namespace {

template <typename... Fs>
struct Overloaded : Fs... {
    using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
    Number value{};
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

std::optional<bool> parse_boolean(std::string_view text) {
    const std::string word = lower(text);
    if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
    if (word == "false" || word == "no" || word == "off" || word == "0") return false;
    return std::nullopt;
}

std::string number_text(double value) {
    return fmt::format("{}", value);
}

std::string check_range(const ConfigKey& key, double value) {
    if (value >= key.min && value <= key.max) return "";
    if (key.max == std::numeric_limits<double>::infinity()) {
        return fmt::format("{} is below {}", number_text(value), number_text(key.min));
    }
    return fmt::format("{} is not in [{}, {}]", number_text(value), number_text(key.min), number_text(key.max));
}

// Text of a choice in its own spelling: "True" in a file is the choice "true".
std::string choose(const ConfigKey& key, std::string_view text, std::string& into) {
    for (const std::string_view choice : key.choices) {
        if (choice != lower(text)) continue;
        into = choice;
        return "";
    }
    const std::string_view near = nearest_name(lower(text), key.choices);
    std::string advice = near.empty() ? "" : fmt::format(". Did you mean \"{}\"?", near);
    if (key.name == "method" && (is_adapter_name(lower(text)) || lower(text) == "qlora"))
        advice = fmt::format(". Try: adapter: {}", lower(text));
    return fmt::format("\"{}\" is not one of: {}{}", excerpt(text), fmt::join(key.choices, ", "), advice);
}

template <typename Number>
std::string assign_number(const ConfigKey& key, const std::string& text, Number& into) {
    const auto value = parse_number<Number>(text);
    const bool whole = std::is_integral_v<Number>;
    if (!value) return fmt::format("\"{}\" is not a{} number", excerpt(text), whole ? " whole" : "");
    const std::string problem = check_range(key, static_cast<double>(*value));
    if (problem.empty()) into = *value;
    return problem;
}

// `where`: a flag, or another place.
std::string assign_size(const ConfigKey& key, const std::string& text, std::string_view where, ByteLimit& into) {
    const std::string place(where.starts_with("--") ? where : key.name);
    try {
        parse_bytes(text, place, kGiB);
    } catch (const UserError& error) {
        return std::string(error.what()).substr(place.size() + 2);
    }
    into.text = text;
    return "";
}

std::string assign_list(const ConfigKey& key, const ConfigEntry& entry, std::vector<std::string>& into) {
    std::vector<std::string> values;
    for (const std::string& text : entry.values) {
        values.push_back(text);
        if (key.choices.empty()) continue;
        const std::string problem = choose(key, text, values.back());
        if (!problem.empty()) return problem;
    }
    into = std::move(values);
    return "";
}

template <typename Member>
constexpr bool kOptional = false;
template <typename Number>
constexpr bool kOptional<std::optional<Number>> = true;

std::string assign_null(const ConfigKey& key, Config& config) {
    return std::visit(
        [&](auto field) -> std::string {
            using Member = std::remove_cvref_t<decltype(config.*field)>;
            if constexpr (std::is_arithmetic_v<Member>) {
                return "may not be null";
            } else {
                if (!key.choices.empty()) return "may not be null";
                config.*field = Member();
                return "";
            }
        },
        key.field);
}

std::string quote_yaml(const std::string& text) {
    const bool plain = !text.empty() && text.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_./-") == std::string::npos;
    const std::string word = lower(text);
    const bool looks_otherwise = text.starts_with('-') || parse_number<double>(text) || word == "null" ||
                                 word == "true" || word == "false" || word == "yes" || word == "no" || word == "on" ||
                                 word == "off";
    if (plain && !looks_otherwise) return text;
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

}  // namespace

std::string assign_config_value(const ConfigKey& key, const ConfigEntry& entry, Config& config) {
    if (entry.is_null) return assign_null(key, config);
    if (auto* list = std::get_if<std::vector<std::string> Config::*>(&key.field)) {
        return assign_list(key, entry, config.**list);
    }
    if (entry.is_list || entry.values.size() != 1) return "expected one value, not a list";
    const std::string& text = entry.values.front();
    const bool is_empty_word = text == key.empty || lower(text) == "null";
    return std::visit(
        Overloaded{
            [&](std::string Config::*field) -> std::string {
                if (!key.choices.empty()) return choose(key, text, config.*field);
                config.*field = text;
                return "";
            },
            [&](ByteLimit Config::*field) { return assign_size(key, text, entry.where, config.*field); },
            [&](bool Config::*field) -> std::string {
                const auto value = parse_boolean(text);
                if (!value) return fmt::format("\"{}\" is neither true nor false", excerpt(text));
                config.*field = *value;
                return "";
            },
            [&]<typename Number>(std::optional<Number> Config::*field) -> std::string {
                if (is_empty_word) {
                    config.*field = std::nullopt;
                    return "";
                }
                Number value{};
                const std::string problem = assign_number(key, text, value);
                if (problem.empty()) config.*field = value;
                return problem;
            },
            [&](std::vector<std::string> Config::*) -> std::string { return ""; },
            [&]<typename Number>(Number Config::*field) { return assign_number(key, text, config.*field); },
        },
        key.field);
}

std::string config_value_text(const ConfigKey& key, const Config& config) {
    return std::visit(Overloaded{
                          [&](std::string Config::*field) {
                              const std::string& text = config.*field;
                              const bool word =
                                  !key.choices.empty();  // true and false among choices are the YAML words
                              return text.empty() ? "null" : word ? text : quote_yaml(text);
                          },
                          [&](ByteLimit Config::*field) {
                              return (config.*field).text.empty() ? "null" : quote_yaml((config.*field).text);
                          },
                          [&](bool Config::*field) -> std::string { return config.*field ? "true" : "false"; },
                          [&](std::vector<std::string> Config::*field) {
                              std::vector<std::string> members;
                              for (const std::string& text : config.*field) members.push_back(quote_yaml(text));
                              return fmt::format("[{}]", fmt::join(members, ", "));
                          },
                          [&]<typename Number>(std::optional<Number> Config::*field) {
                              return config.*field ? fmt::format("{}", *(config.*field)) : std::string(key.empty);
                          },
                          [&]<typename Number>(Number Config::*field) { return fmt::format("{}", config.*field); },
                      },
                      key.field);
}

std::string config_type_name(const ConfigKey& key) {
    return std::visit(Overloaded{
                          [&](std::string Config::*) -> std::string { return key.choices.empty() ? "text" : "choice"; },
                          [](ByteLimit Config::*) -> std::string { return "size"; },
                          [](bool Config::*) -> std::string { return "true/false"; },
                          [](std::vector<std::string> Config::*) -> std::string { return "list"; },
                          [](int64_t Config::*) -> std::string { return "integer"; },
                          [](double Config::*) -> std::string { return "number"; },
                          [&](std::optional<int64_t> Config::*) { return fmt::format("integer or {}", key.empty); },
                          [&](std::optional<double> Config::*) { return fmt::format("number or {}", key.empty); },
                      },
                      key.field);
}

}  // namespace windlass
