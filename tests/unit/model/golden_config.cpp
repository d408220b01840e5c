#include "base/json.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {

std::string golden_config(const std::string& name) {
    return golden_config(name, Json::object());
}

std::string golden_config(const std::string& name, const Json& changes) {
    const std::string path = golden_folder(name) + "/config.json";
    Json config = parse_json(read_text(real_files(), path, 1 << 20), path, ExitCode::internal);
    for (const auto& [key, value] : changes.items()) {
        if (value.is_null())
            config.erase(key);
        else
            config[key] = value;
    }
    return config.dump(2);
}

}  // namespace windlass
