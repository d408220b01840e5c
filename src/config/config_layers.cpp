#include "config/config_layers.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/config_values.h"
#include "config/key_advice.h"
#include "config/renamed.h"

namespace windlass {
namespace {

std::string unknown_key(const ConfigEntry& entry) {
    const std::string what = fmt::format("{}: there is no key \"{}\"", entry.where, entry.key);
    if (const KeyAdvice* const advice = find_key_advice(entry.key); advice != nullptr)
        return fmt::format("{}{}{}. Try: {}", what, advice->why.empty() ? "" : ": ", advice->why,
                           typed_advice(*advice, entry));
    if (!entry.problem.empty()) return fmt::format("{}: {}: {}", entry.where, entry.key, entry.problem);
    const std::string_view near = nearest_config_key(entry.key);
    return near.empty() ? what : fmt::format("{}. Did you mean \"{}\"?", what, near);
}

// The key that an unknown one probably means; empty if no key is near.
std::string_view key_meant(const ConfigEntry& entry) {
    if (const KeyAdvice* const advice = find_key_advice(entry.key); advice != nullptr) return advised_key(*advice);
    const std::string_view near = nearest_config_key(entry.key);
    return near.empty() ? near : find_config_key(near)->name;
}

// With today's names in place of an earlier version's, where that wrote it; else says what is to be written.
ConfigEntry with_new_names(ConfigEntry entry, std::vector<std::string>& problems) {
    const bool is_one = entry.problem.empty() && !entry.is_list && entry.values.size() == 1;
    const Renamed* const renamed = is_one ? find_renamed(entry.key, entry.values[0]) : nullptr;
    if (renamed == nullptr) return entry;
    if (!entry.of_run) {
        problems.push_back(fmt::format("{}: {}: {} has another name now. Try: {}: {}", entry.where, entry.key,
                                       entry.values[0], renamed->key_now, renamed->value_now));
        entry.key.clear();
    } else {
        entry.key = renamed->key_now;
        if (entry.values[0] == renamed->value) entry.values[0] = renamed->value_now;
    }
    return entry;
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
    for (const ConfigEntry& written : layer) {
        const ConfigEntry entry = with_new_names(written, problems);
        if (entry.key.empty()) continue;
        const ConfigKey* key = find_config_key(entry.key);
        if (key == nullptr) {
            if (is_retired_without_effect(entry)) continue;
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
