#include "data/generation_config.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "format/side_files.h"

namespace windlass {
namespace {

constexpr int64_t kGenerationBytesMax = int64_t{16} << 20;
constexpr const char* kEos = "eos_token_id";

// Nothing of a file that is not there, or that a copy of the folder leaves out.
Json read_object(FileSystem& files, const std::string& folder, const char* name) {
    const std::string path = path_in(folder, name);
    if (!files.exists(path) || !why_not_copied(files, folder, name).empty()) return nullptr;
    Json json = parse_json(read_text(files, path, kGenerationBytesMax), path, ExitCode::model);
    if (!json.is_object()) throw UserError(ExitCode::model, path, "the file is not a JSON object");
    return json;
}

// The generation_config.json of a folder, or what transformers makes of its config.json in its place.
Json read_generation_config(FileSystem& files, const std::string& folder) {
    Json own = read_object(files, folder, kGenerationConfigName);
    if (!own.is_null()) return own;
    const Json config = read_object(files, folder, "config.json");
    Json made = Json::object();
    for (const char* const key : {"bos_token_id", kEos, "pad_token_id"}) {
        if (config.is_object() && config.contains(key) && !config[key].is_null()) made[key] = config[key];
    }
    return made;
}

std::vector<int64_t> stop_ids_in(const Json& config) {
    std::vector<int64_t> ids;
    const auto take = [&](const Json& value) {
        if (const std::optional<int64_t> id = integer_of(value)) ids.push_back(*id);
    };
    const auto at = config.find(kEos);
    if (at == config.end()) return ids;
    if (!at->is_array()) take(*at);
    if (at->is_array())
        for (const Json& each : *at) take(each);
    return ids;
}

}  // namespace

std::string generation_config_with_stop(FileSystem& files, const std::string& folder, int32_t id) {
    Json config = read_generation_config(files, folder);
    std::vector<int64_t> ids = stop_ids_in(config);
    if (std::ranges::find(ids, id) != ids.end()) return "";
    ids.push_back(id);
    config[kEos] = ids;
    return config.dump(2) + "\n";
}

std::string generation_config_beside(FileSystem& files, const std::string& folder) {
    const std::string path = path_in(folder, kGenerationConfigName);
    if (!files.exists(path)) return "";
    require_copyable(files, folder, kGenerationConfigName);
    return read_text(files, path, kGenerationBytesMax);
}

}  // namespace windlass
