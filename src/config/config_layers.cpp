#include "config/config_layers.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "config/config_keys.h"
#include "config/config_values.h"
#include "config/key_advice.h"

namespace windlass {
namespace {

std::string unknown_key(const ConfigEntry& entry) {
    const std::string what = fmt::format("{}: there is no key \"{}\"", entry.where, excerpt(entry.key));
    if (const KeyAdvice* const advice = find_key_advice(entry.key); advice != nullptr)
        return fmt::format("{}{}{}. Try: {}", what, advice->why.empty() ? "" : ": ", advice->why,
                           typed_advice(*advice, entry));
    if (!entry.problem.empty()) return fmt::format("{}: {}: {}", entry.where, excerpt(entry.key), entry.problem);
    const std::string_view near = nearest_config_key(entry.key);
    return near.empty() ? what : fmt::format("{}. Did you mean \"{}\"?", what, near);
}

// The key that an unknown one probably means; empty if no key is near.
std::string_view key_meant(const ConfigEntry& entry) {
    if (const KeyAdvice* const advice = find_key_advice(entry.key); advice != nullptr) return advised_key(*advice);
    const std::string_view near = nearest_config_key(entry.key);
    return near.empty() ? near : find_config_key(near)->name;
}

// Sets one key; returns what is wrong, empty when nothing is.
std::string apply_entry(const ConfigKey& key, const ConfigEntry& entry, ReadConfig& read) {
    if (!entry.problem.empty()) return fmt::format("{}: {}: {}", entry.where, entry.key, entry.problem);
    std::string written = entry.key;
    std::ranges::replace(written, '-', '_');
    if (written != key.name) read.notes.push_back(fmt::format("{}: {} is read as {}", entry.where, written, key.name));
    const std::string problem = assign_config_value(key, entry, read.config);
    return problem.empty() ? "" : fmt::format("{}: {}: {}", entry.where, key.name, problem);
}

}  // namespace

void apply_layer(const std::vector<ConfigEntry>& layer, ReadConfig& read, std::vector<std::string>& problems,
                 std::set<std::string_view>& meant) {
    std::map<std::string_view, std::string> seen;
    for (const ConfigEntry& entry : layer) {
        const ConfigKey* key = find_config_key(entry.key);
        if (key == nullptr) {
            problems.push_back(unknown_key(entry));
            meant.insert(key_meant(entry));
            continue;
        }
        const auto [earlier, is_new] = seen.emplace(key->name, entry.where);
        const std::string problem =
            is_new ? apply_entry(*key, entry, read)
                   : fmt::format("{}: {} is set already, by {}", entry.where, key->name, earlier->second);
        if (problem.empty()) {
            read.config.given.emplace(key->name);
        } else {
            problems.push_back(problem);
            meant.insert(key->name);
        }
    }
}

}  // namespace windlass
