#include "format/hf_config_values.h"

#include <algorithm>

#include "base/json.h"
#include "format/checksum.h"
#include "format/hf_config_keys.h"

namespace windlass {
namespace {

constexpr size_t kTextMax = 100;

// 32 and 32.0 are one number.
std::string text_of(const SortedJson& value) {
    if (value.is_number()) return fmt::format("{}", value.get<double>());
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.size() <= kTextMax) return text;
    return fmt::format("{} of {:016x}", value.type_name(), xxh3_64(bytes_of(text)));
}

// finish() has refused every other key that no family reads.
bool has_effect(const std::string& key) {
    const KeyMeaning meaning = meaning_of(key);
    return key == "model_type" || (meaning != KeyMeaning::neutral && meaning != KeyMeaning::dropout);
}

void add_values(const SortedJson& object, const std::string& head, const HfConfig& config,
                std::map<std::string, std::string>& values) {
    for (const auto& [key, value] : object.items()) {
        const std::string name = head + key;
        const bool is_unread = std::ranges::find(config.unread(), name) != config.unread().end();
        if (value.is_null() || is_unread || !has_effect(key)) continue;
        if (value.is_object())
            add_values(value, name + ".", config, values);
        else
            values.emplace(name, text_of(value));
    }
}

}  // namespace

std::map<std::string, std::string> values_that_compute(const HfConfig& config) {
    SortedJson json = parse_sorted_json(config.to_text(), config.where(), ExitCode::model);
    for (const std::string& key : config.ignored()) erase_member(json, key);
    std::map<std::string, std::string> values;
    add_values(json, "", config, values);
    return values;
}

}  // namespace windlass
