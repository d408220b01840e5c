#include "base/json.h"

#include <limits>
#include <set>
#include <vector>

#include "base/json_row.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr size_t kDepthMax = 64;

// Text has no binary values: one of this subtype holds the digits of a whole number.
constexpr uint8_t kDigits = 1;

Json as_digits(std::string_view digits) {
    return Json::binary({digits.begin(), digits.end()}, kDigits);
}

bool is_whole(std::string_view number) {
    return number.find_first_not_of("-0123456789") == std::string_view::npos;
}

// What Python writes for numbers that are not finite, and what they are rewritten to: a string that begins with a mark.
struct NotFinite {
    std::string_view text;
    double value;
};
constexpr NotFinite kNotFinite[] = {{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                    {"Infinity", std::numeric_limits<double>::infinity()},
                                    {"-Infinity", -std::numeric_limits<double>::infinity()}};
constexpr char kMark = '\x01';

struct Leniency {
    bool keep_digits = false;  // of whole numbers
    bool has_marks = false;    // of numbers that are not finite
};

// The text with such numbers as marked strings; nothing without such numbers.
std::optional<std::string> with_marks(std::string_view text) {
    std::string marked;
    bool in_string = false, has_any = false;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '"') in_string = !in_string;
        if (in_string && text[at] == '\\') marked += text[at++];
        const auto* const found = std::ranges::find_if(
            kNotFinite, [&](const NotFinite& each) { return !in_string && text.substr(at).starts_with(each.text); });
        if (found == std::end(kNotFinite)) {
            if (at < text.size()) marked += text[at];
            continue;
        }
        marked += fmt::format("\"\\u{:04x}{}\"", static_cast<unsigned>(kMark), found->text);
        at += found->text.size() - 1;
        has_any = true;
    }
    return has_any ? std::optional(std::move(marked)) : std::nullopt;
}

// Builds the value from the parser's events: what nlohmann's own builder does, with limits, and in time that grows with
// the text alone. Its builder with a callback searches the whole parent after each inner object, and an ordered object
// is searched for each key that is added to it.
template <typename AnyJson>
class Builder {
  public:
    Builder(std::string_view where, ExitCode code, const Leniency& leniency)
        : where_(where), code_(code), keep_digits_(leniency.keep_digits), has_marks_(leniency.has_marks) {}
    AnyJson take() { return std::move(root_); }

    // The events. Each returns whether to continue.
    bool null() { return add(nullptr) != nullptr; }
    bool boolean(bool value) { return add(value) != nullptr; }
    bool number_integer(int64_t value) { return add(value) != nullptr; }
    bool number_unsigned(uint64_t value) {
        if constexpr (std::is_same_v<AnyJson, Json>)
            if (keep_digits_ && value > uint64_t{INT64_MAX}) return add(as_digits(std::to_string(value))) != nullptr;
        return add(value) != nullptr;
    }
    bool number_float(double value, const std::string& text) {
        if constexpr (std::is_same_v<AnyJson, Json>)
            if (keep_digits_ && is_whole(text)) return add(as_digits(text)) != nullptr;
        return add(value) != nullptr;
    }
    bool string(std::string& value) {
        if (has_marks_ && !value.empty() && value.front() == kMark)
            for (const NotFinite& each : kNotFinite)
                if (std::string_view(value).substr(1) == each.text) return add(each.value) != nullptr;
        return add(std::move(value)) != nullptr;
    }
    bool binary(typename AnyJson::binary_t& value) { return add(std::move(value)) != nullptr; }
    bool start_object(size_t) { return open(AnyJson::object()); }
    bool start_array(size_t) { return open(AnyJson::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        check_depth();
        Container& object = open_.back();
        if (!object.keys.insert(name).second)
            throw UserError(code_, where_, "JSON has the key \"{}\" twice", excerpt(name));
        object.member = append(*object.value, std::move(name));
        return true;
    }
    template <typename ParseError>
    bool parse_error(size_t, const std::string&, const ParseError& error) {
        throw error;
    }

  private:
    struct Container {
        AnyJson* value;              // stays where it is: its parent does not grow before it is closed
        AnyJson* member = nullptr;   // of an object: the place of the value that comes next
        std::set<std::string> keys;  // of an object
    };

    void check_depth() const {
        if (open_.size() > kDepthMax) throw UserError(code_, where_, "JSON is nested deeper than {} levels", kDepthMax);
    }

    // Known to be new, so no ordered object is searched for it.
    static AnyJson* append(AnyJson& object, std::string name) {
        auto& members = object.template get_ref<typename AnyJson::object_t&>();
        if constexpr (std::is_same_v<AnyJson, Json>) {
            members.emplace_back(std::move(name), nullptr);
            return &members.back().second;
        } else {
            return &members.emplace(std::move(name), nullptr).first->second;
        }
    }

    template <typename Value>
    AnyJson* add(Value&& value) {
        check_depth();
        if (open_.empty()) {
            root_ = std::forward<Value>(value);
            return &root_;
        }
        Container& parent = open_.back();
        if (parent.value->is_array()) return &parent.value->emplace_back(std::forward<Value>(value));
        *parent.member = std::forward<Value>(value);
        return parent.member;
    }

    bool open(AnyJson value) {
        open_.push_back({.value = add(std::move(value))});
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    std::string_view where_;
    ExitCode code_;
    bool keep_digits_, has_marks_;
    AnyJson root_;
    std::vector<Container> open_;  // containers, the outermost first
};

template <typename AnyJson>
AnyJson parse_as(std::string_view text, std::string_view where, ExitCode code, const Leniency& leniency = {}) {
    // The parser takes it for the end of the text, and what is after it would be lost without a word.
    if (const size_t at = text.find('\0'); at != std::string_view::npos)
        throw UserError(code, where, "not valid JSON: byte {} is NUL", at + 1)
            .hint("check what the file holds: text has no such bytes, a file that was not written to its end may");
    try {
        Builder<AnyJson> builder(where, code, leniency);
        AnyJson::sax_parse(text, &builder);
        return builder.take();
    } catch (const nlohmann::json::parse_error& error) {
        throw UserError(code, where, "not valid JSON at byte {}: {}", error.byte, excerpt(error.what()));
    } catch (const nlohmann::json::exception& error) {  // a number that no double holds
        throw UserError(code, where, "not valid JSON: {}", excerpt(error.what()));
    }
}

template <typename AnyJson>
AnyJson parse_row_as(std::string_view text, std::string_view where, bool keep_digits) {
    try {
        return parse_as<AnyJson>(text, where, ExitCode::data, {.keep_digits = keep_digits});
    } catch (const UserError&) {
        const std::optional<std::string> marked = with_marks(text);
        if (!marked) throw;
        try {
            return parse_as<AnyJson>(*marked, where, ExitCode::data, {.keep_digits = keep_digits, .has_marks = true});
        } catch (const UserError&) {
            // The first error has the right byte.
        }
        throw;
    }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<Json>(text, where, code);
}

Json parse_json_with_digits(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<Json>(text, where, code, {.keep_digits = true});
}

std::optional<std::string> digits_of(const Json& value) {
    if (!value.is_binary() || value.get_binary().subtype() != kDigits) return std::nullopt;
    return std::string(value.get_binary().begin(), value.get_binary().end());
}

SortedJson parse_sorted_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<SortedJson>(text, where, code);
}

Json parse_row_with_digits(std::string_view text, std::string_view where) {
    return parse_row_as<Json>(text, where, /*keep_digits=*/true);
}

SortedJson parse_sorted_row(std::string_view text, std::string_view where) {
    return parse_row_as<SortedJson>(text, where, /*keep_digits=*/false);
}

}  // namespace windlass
