#include "config/preset.h"

#include <array>

#include "base/json.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr std::array<std::string_view, 3> kMembers = {"name", "paper", "keys"};

// A value as a configuration file would write it.
std::string scalar_text(const Json& value, std::string_view where, std::string_view key) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    throw UserError(ExitCode::usage, where, "{}: expected a word, a number, true, false, null or a list of them",
                    excerpt(key));
}

ConfigEntry read_entry(const std::string& key, const Json& value, std::string_view where) {
    if (key == "preset") throw UserError(ExitCode::usage, where, "a preset begins from no other one");
    ConfigEntry entry{.key = key, .is_list = value.is_array(), .is_null = value.is_null(), .where = std::string(where)};
    if (entry.is_list) {
        for (const Json& member : value) entry.values.push_back(scalar_text(member, where, key));
    } else if (!entry.is_null) {
        entry.values.push_back(scalar_text(value, where, key));
    }
    return entry;
}

std::string read_words(const Json& preset, const char* member, std::string_view where) {
    const auto found = preset.find(member);
    if (found == preset.end() || !found->is_string() || found->get<std::string>().empty())
        throw UserError(ExitCode::usage, where, "a preset has a {}, in words", member);
    return found->get<std::string>();
}

}  // namespace

Preset parse_preset(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::usage);
    if (!json.is_object()) throw UserError(ExitCode::usage, where, "a preset is a JSON object");
    for (const auto& [member, value] : json.items()) {
        if (std::find(kMembers.begin(), kMembers.end(), member) != kMembers.end()) continue;
        const std::string_view near = nearest_name(member, kMembers);
        throw UserError(ExitCode::usage, where, "a preset has no \"{}\"", excerpt(member))
            .hint(near.empty() ? "expected settings under keys" : std::string(near));
    }
    Preset preset{.name = read_words(json, "name", where), .paper = read_words(json, "paper", where)};
    const auto keys = json.find("keys");
    if (keys == json.end() || !keys->is_object())
        throw UserError(ExitCode::usage, where, "a preset has keys, an object of settings");
    for (const auto& [key, value] : keys->items()) preset.keys.push_back(read_entry(key, value, where));
    return preset;
}

Preset find_preset(FileSystem& files, const std::string& name_or_path) {
    return parse_preset(read_embedded(files, preset_texts(), name_or_path, kPresetBytesMax, "preset"), name_or_path);
}

}  // namespace windlass
