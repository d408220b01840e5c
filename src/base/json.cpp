#include "base/json.h"

#include <set>
#include <vector>

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

// Builds the value from the parser's events: what nlohmann's own builder does, with limits, and in time that grows with
// the text alone. Its builder with a callback searches the whole parent after each inner object, and an ordered object
// is searched for each key that is added to it.
template <typename AnyJson>
class Builder {
  public:
    Builder(std::string_view where, ExitCode code, bool keep_digits)
        : where_(where), code_(code), keep_digits_(keep_digits) {}
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
    bool string(std::string& value) { return add(std::move(value)) != nullptr; }
    bool binary(typename AnyJson::binary_t& value) { return add(std::move(value)) != nullptr; }
    bool start_object(size_t) { return open(AnyJson::object()); }
    bool start_array(size_t) { return open(AnyJson::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        check_depth();
        Container& object = open_.back();
        if (!object.keys.insert(name).second) throw UserError(code_, where_, "JSON has the key \"{}\" twice", name);
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
    bool keep_digits_;
    AnyJson root_;
    std::vector<Container> open_;  // containers, the outermost first
};

template <typename AnyJson>
AnyJson parse_as(std::string_view text, std::string_view where, ExitCode code, bool keep_digits = false) {
    // The parser takes it for the end of the text, and what is after it would be lost without a word.
    if (const size_t at = text.find('\0'); at != std::string_view::npos)
        throw UserError(code, where, "not valid JSON: byte {} is NUL", at + 1)
            .hint("check what the file holds: text has no such bytes, a file that was not written to its end may");
    try {
        Builder<AnyJson> builder(where, code, keep_digits);
        AnyJson::sax_parse(text, &builder);
        return builder.take();
    } catch (const nlohmann::json::parse_error& error) {
        throw UserError(code, where, "not valid JSON at byte {}: {}", error.byte, error.what());
    } catch (const nlohmann::json::exception& error) {  // a number that no double holds
        throw UserError(code, where, "not valid JSON: {}", error.what());
    }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<Json>(text, where, code);
}

Json parse_json_with_digits(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<Json>(text, where, code, /*keep_digits=*/true);
}

std::optional<std::string> digits_of(const Json& value) {
    if (!value.is_binary() || value.get_binary().subtype() != kDigits) return std::nullopt;
    return std::string(value.get_binary().begin(), value.get_binary().end());
}

SortedJson parse_sorted_json(std::string_view text, std::string_view where, ExitCode code) {
    return parse_as<SortedJson>(text, where, code);
}

}  // namespace windlass
