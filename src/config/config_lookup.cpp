// Finding keys by what people write.
#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

std::string with_underscores(std::string_view name) {
    std::string result(name);
    std::replace(result.begin(), result.end(), '-', '_');
    return result;
}

}  // namespace

const ConfigKey* find_config_key(std::string_view name) {
    const std::string wanted = with_underscores(name);
    for (const ConfigKey& key : config_keys()) {
        if (key.name == wanted) return &key;
        if (std::find(key.aliases.begin(), key.aliases.end(), wanted) != key.aliases.end()) return &key;
    }
    return nullptr;
}

std::string_view nearest_config_key(std::string_view name) {
    std::vector<std::string_view> candidates;
    for (const ConfigKey& key : config_keys()) candidates.push_back(key.name);
    for (const ConfigKey& key : config_keys())
        candidates.insert(candidates.end(), key.aliases.begin(), key.aliases.end());
    return nearest_name(with_underscores(name.substr(0, 64)), candidates);
}

std::string config_flag(std::string_view name) {
    std::string flag = fmt::format("--{}", name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

}  // namespace windlass
