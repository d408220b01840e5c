#include "ui/places.h"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"

namespace windlass {
namespace {

constexpr int kDepth = 4;
constexpr int64_t kEntriesMax = 20'000;  // that are seen
constexpr size_t kEachMax = 1000;        // that are named

// Rows of data have one of the first, and may be compressed; .json files are often something else, so theirs are named
// only if they are no part of a model.
constexpr std::array<std::string_view, 6> kRowSuffixes = {".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet"};
constexpr std::array<std::string_view, 3> kCompressed = {".gz", ".zst", ".xz"};
constexpr std::string_view kOfRuns = "events.jsonl";  // in every run's folder

std::string_view name_in(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}
std::string folder_of_file(std::string_view path) {
    return path.find('/') == path.npos ? "." : std::string(path.substr(0, path.rfind('/')));
}

// In one of the folders, or below it.
bool is_within(const std::vector<std::string>& folders, std::string_view path) {
    return std::ranges::any_of(folders, [&](const std::string& folder) {
        return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
    });
}

bool holds_rows(std::string_view path) {
    std::string_view name = name_in(path);
    for (const std::string_view suffix : kCompressed)
        if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
    return std::ranges::any_of(kRowSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

// "org/name" of "models--org--name".
std::string id_of_cached(std::string_view folder) {
    constexpr std::string_view kHead = "models--";
    if (!folder.starts_with(kHead)) return "";
    std::string id(folder.substr(kHead.size()));
    if (const size_t at = id.find("--"); at != id.npos) id.replace(at, 2, "/");
    return id;
}

std::vector<std::string> cached_models(const std::string& cache) {
    std::vector<std::string> ids;
    DIR* const stream = cache.empty() ? nullptr : opendir(cache.c_str());
    if (stream == nullptr) return ids;
    for (const dirent* each = readdir(stream); each != nullptr && ids.size() < kEachMax; each = readdir(stream))
        if (std::string id = id_of_cached(each->d_name); !id.empty()) ids.push_back(std::move(id));
    closedir(stream);
    std::ranges::sort(ids);
    return ids;
}

}  // namespace

Json places_json(const Root& root, const std::string& hub_cache) {
    std::vector<std::string> models, runs;
    std::vector<std::pair<std::string, int64_t>> data;
    root.walk(kDepth, kEntriesMax, [&](const std::string& path, int64_t bytes) {
        if (name_in(path) == "config.json" && models.size() < kEachMax) models.push_back(folder_of_file(path));
        if (name_in(path) == kOfRuns) runs.push_back(folder_of_file(path));
        if (holds_rows(path) && data.size() < kEachMax) data.emplace_back(path, bytes);
    });
    Json json = {{"models", Json::array()}, {"data", Json::array()}};
    for (const std::string& each : models) json["models"].push_back({{"model", each}, {"from", "folder"}});
    for (const std::string& each : cached_models(hub_cache))
        json["models"].push_back({{"model", each}, {"from", "cache"}});
    for (const auto& [path, bytes] : data) {
        const bool is_of_model = std::ranges::find(models, folder_of_file(path)) != models.end();
        if (!is_of_model && !is_within(runs, path)) json["data"].push_back({{"path", path}, {"bytes", bytes}});
    }
    return json;
}

}  // namespace windlass
