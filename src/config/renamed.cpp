#include "config/renamed.h"

#include <algorithm>
#include <array>

#include "base/json.h"

namespace windlass {
namespace {

constexpr std::array kRenamed = {Renamed{"fold_updates", "each_step", "merge_updates", "each_step"},
                                 Renamed{"fold_updates", "each_window", "merge_updates", "per_window"},
                                 Renamed{"fold_updates", "never", "merge_updates", "never"},
                                 Renamed{"state_format", "s1", "state_format", "fp32"},
                                 Renamed{"state_format", "s2", "state_format", "bf16"},
                                 Renamed{"state_format", "s3", "state_format", "int8"}};

}  // namespace

const Renamed* find_renamed(std::string_view key, std::string_view value) {
    const auto find = [](const auto& is_wanted) {
        const auto* const found = std::ranges::find_if(kRenamed, is_wanted);
        return found == kRenamed.end() ? nullptr : found;
    };
    const auto same_key = [&](const Renamed& each) { return each.key == key; };
    const Renamed* const exact = find([&](const Renamed& each) { return same_key(each) && each.value == value; });
    return exact != nullptr ? exact : find([&](const Renamed& each) { return same_key(each) && each.key_now != key; });
}

void rename_members(Json& object) {
    Json renamed = Json::object();
    for (auto& [key, value] : object.items()) {
        const Renamed* const found = value.is_string() ? find_renamed(key, value.get<std::string_view>()) : nullptr;
        if (found != nullptr && found->value == value.get<std::string_view>())
            renamed[std::string(found->key_now)] = std::string(found->value_now);
        else
            renamed[key] = std::move(value);
    }
    object = std::move(renamed);
}

}  // namespace windlass
