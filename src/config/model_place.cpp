#include "config/model_place.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "config/run_place.h"
#include "format/model_folder.h"
#include "model/adapters/peft.h"

namespace windlass {
namespace {

constexpr int64_t kRevisionBytesMax = 256;
constexpr size_t kIdMax = 96;  // of an organisation or a name on the Hub
constexpr int64_t kIndexBytesMax = int64_t{256} << 20;
constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kRepoPrefix = "models--";

std::string inside(const std::string& folder, std::string_view name) {
    return fmt::format("{}/{}", folder, name);
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// "~/x" as the shell reads it.
std::string expanded(const std::string& path) {
    return path == "~" || path.starts_with("~/") ? variable("HOME") + path.substr(1) : path;
}

bool is_id_part(std::string_view part) {
    const auto fits = [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '-' || c == '_' || c == '.'); };
    return !part.empty() && part.size() <= kIdMax && part[0] != '.' && part[0] != '-' &&
           std::ranges::all_of(part, fits) && part.find("--") == part.npos && part.find("..") == part.npos;
}

// "ORGANISATION/NAME", or a NAME alone, as the oldest models have it.
bool is_model_id(std::string_view name) {
    const size_t slash = name.find('/');
    if (slash == name.npos) return is_id_part(name);
    return is_id_part(name.substr(0, slash)) && is_id_part(name.substr(slash + 1));
}

// "models--Qwen--Qwen3-0.6B" -> "Qwen/Qwen3-0.6B"
std::string id_of(std::string_view folder) {
    const std::string_view name = folder.substr(kRepoPrefix.size());
    const size_t dashes = name.find("--");
    if (dashes == name.npos) return std::string(name);
    return fmt::format("{}/{}", name.substr(0, dashes), name.substr(dashes + 2));
}

// And back.
std::string repo_folder(std::string_view id) {
    const size_t slash = id.find('/');
    if (slash == id.npos) return fmt::format("{}{}", kRepoPrefix, id);
    return fmt::format("{}{}--{}", kRepoPrefix, id.substr(0, slash), id.substr(slash + 1));
}

std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return text;
}

// The revision that a download without one has put there.
std::string main_revision(FileSystem& files, const std::string& repo) {
    const std::string snapshots = inside(repo, "snapshots"), main = inside(repo, "refs/main");
    if (files.exists(main)) {
        const std::string revision = trimmed(read_text(files, main, kRevisionBytesMax));
        if (is_id_part(revision) && files.exists(inside(snapshots, revision))) return revision;
        throw UserError(ExitCode::model, main, "names \"{}\", which is not in {}", revision, snapshots)
            .hint("fetch the model again, or name a folder of snapshots");
    }
    const std::vector<std::string> revisions = files.list(snapshots);
    if (revisions.size() == 1) return revisions.front();
    throw UserError(ExitCode::model, repo, "has no refs/main and {} snapshots", revisions.size())
        .hint(revisions.empty() ? "fetch the model again" : inside(snapshots, revisions.front()));
}

ModelPlace in_repo(FileSystem& files, const std::string& repo, const std::string& id) {
    const std::string revision = main_revision(files, repo);
    const std::string folder = inside(inside(repo, "snapshots"), revision);
    std::string note = fmt::format("{} is revision {} in the Hugging Face cache", id, revision);
    const std::vector<std::string> names = files.list(folder);
    if (std::ranges::none_of(names, [](const std::string& name) { return name.ends_with(".safetensors"); }))
        note += fmt::format(", without weights; hf download {} fetches them", id);
    return {folder, note};
}

[[noreturn]] void refuse_cache(const std::string& folder, const std::vector<std::string>& names) {
    constexpr size_t kShown = 5;
    std::vector<std::string> ids;
    for (const std::string& name : names) {
        if (name.starts_with(kRepoPrefix) && ids.size() < kShown) ids.push_back(id_of(name));
    }
    throw UserError(ExitCode::model, folder, "is a Hugging Face cache, which holds models by their ids")
        .hint(fmt::format("{}", fmt::join(ids, ", or ")));
}

// An id has the form of a path of two parts. It is taken for a path if its first part is a folder here, or a usual name
// of one, or if its last part is a name that runs give.
bool is_like_a_path(FileSystem& files, const std::string& name) {
    const size_t slash = name.find('/');
    if (slash == name.npos || !is_model_id(name)) return slash != name.npos;
    const std::string first = name.substr(0, slash), last = name.substr(slash + 1);
    if (files.exists(first) && files.status(first).is_folder) return true;
    constexpr std::string_view kFolders[] = {"model",  "models",  "run",     "runs",     "checkpoint", "checkpoints",
                                             "output", "outputs", "out",     "data",     "weights",    "base",
                                             "bases",  "tmp",     "adapter", "adapters", "exports"};
    if (std::ranges::find(kFolders, first) != std::end(kFolders)) return true;
    return last == "final" || last.starts_with("checkpoint-") || last.starts_with("export-");
}

std::optional<ModelPlace> place_of_name(FileSystem& files, const std::string& name);

// An adapter's folder, to which some programs also write the base's config.json; no folder with other weights.
bool is_only_adapter(FileSystem& files, const std::string& folder) {
    if (is_adapter_folder(files, folder)) return true;
    if (!files.exists(inside(folder, kAdapterConfigName)) || !files.exists(inside(folder, "adapter_model.safetensors")))
        return false;
    return std::ranges::none_of(files.list(folder), [](const std::string& name) {
        return name.ends_with(".safetensors") && !name.starts_with("adapter_");
    });
}

// The model that an adapter says it belongs to.
ModelPlace of_adapter(FileSystem& files, const std::string& folder, const std::string& note) {
    const AdapterFolder adapter = AdapterFolder::open(files, folder);
    const std::string base = found_from(files, read_peft_config(adapter).base, folder);
    const std::string wayout = fmt::format("the base as the model, with --adapter {}", folder);
    if (base.empty())
        throw UserError(ExitCode::model, adapter.config_path(), "does not say whose adapter it is").hint(wayout);
    if (files.exists(base) && files.status(base).is_folder && is_only_adapter(files, base))
        throw UserError(ExitCode::model, adapter.config_path(), "names {} as its base, which is an adapter too", base)
            .hint(wayout);
    const std::optional<ModelPlace> found = place_of_name(files, base);
    if (!found || !files.exists(found->folder)) {
        UserError error(ExitCode::model, adapter.config_path(), "names {} as its base, which is not there",
                        excerpt(base));
        error.hint(wayout);
        if (!found && !is_like_a_path(files, base)) error.or_hint(fmt::format("hf download {}", base));
        throw std::move(error);
    }
    const ModelPlace& place = *found;
    return {place.folder, fmt::format("{}{} is an adapter of {}", note, folder, place.folder), folder};
}

ModelPlace in_folder(FileSystem& files, const std::string& folder) {
    const auto has = [&](std::string_view name) { return files.exists(inside(folder, name)); };
    if (is_only_adapter(files, folder)) return of_adapter(files, folder, "");
    // peft adds one that lies next to whole weights. Whether it was merged with them cannot be seen.
    if (has("config.json") && has(kAdapterConfigName))
        return {folder, fmt::format("{} also holds {}: this adapter is not used; --adapter {} would use it", folder,
                                    kAdapterConfigName, folder)};
    if (has("config.json")) return {folder, ""};
    if (is_run_folder(files, folder)) {
        const std::string final_folder = inside(folder, "final");
        if (files.exists(inside(final_folder, "config.json")))
            return {final_folder, fmt::format("{} is a run: its last weights are taken, {}", folder, final_folder)};
        if (files.exists(final_folder) && is_adapter_folder(files, final_folder))
            return of_adapter(files, final_folder, fmt::format("{} is a run; ", folder));
        throw UserError(ExitCode::model, folder, "is a run that has not ended: it has no final model")
            .hint(fmt::format("windlass export {} --to FOLDER, which writes the weights of its newest checkpoint",
                              folder));
    }
    if (has("run.yaml"))
        throw UserError(ExitCode::model, folder, "holds a configuration, run.yaml, but no model and no run")
            .hint(fmt::format("windlass train {}", inside(folder, "run.yaml")));
    if (has("state.wls") && has("model/config.json"))
        return {inside(folder, "model"), fmt::format("{} is a checkpoint: its weights are taken", folder)};
    if (has("state.wls") && files.exists(inside(folder, "adapter")))
        return of_adapter(files, inside(folder, "adapter"), fmt::format("{} is a checkpoint; ", folder));
    if (has("snapshots")) {
        const std::string name = folder.substr(folder.rfind('/') + 1);
        return in_repo(files, folder, name.starts_with(kRepoPrefix) ? id_of(name) : name);
    }
    const std::vector<std::string> names = files.list(folder);
    if (std::ranges::any_of(names, [](const std::string& name) { return name.starts_with(kRepoPrefix); }))
        refuse_cache(folder, names);
    return {folder, ""};
}

// Nothing for an id that is not in the cache; any other name that is not there is given back.
std::optional<ModelPlace> place_of_name(FileSystem& files, const std::string& name) {
    const std::string path = run_folder_of(files, name);
    if (files.exists(path)) return files.status(path).is_folder ? in_folder(files, path) : ModelPlace{path, ""};
    if (!is_model_id(path)) return ModelPlace{path, ""};
    const std::string cache = hub_cache_folder(), repo = inside(cache, repo_folder(path));
    if (!cache.empty() && files.exists(inside(repo, "snapshots"))) return in_repo(files, repo, path);
    return std::nullopt;
}

// A snapshot of this machine's cache, by its path, which need not be there.
std::optional<HubModel> of_snapshot(const std::string& path) {
    const auto [id, revision] = name_of_model(path);
    const std::string cache = hub_cache_folder();
    if (cache.empty() || !is_model_id(id) || !is_id_part(revision)) return std::nullopt;
    if (path != inside(inside(inside(cache, repo_folder(id)), "snapshots"), revision)) return std::nullopt;
    return HubModel{id, revision};
}

// What the adapter of a folder, a run or a checkpoint names as its base; empty where there is none.
std::string base_of_adapter(FileSystem& files, const std::string& path) {
    for (const std::string& folder : {path, inside(path, "final"), inside(path, "adapter")}) {
        if (!files.exists(folder) || !files.status(folder).is_folder || !is_only_adapter(files, folder)) continue;
        return found_from(files, read_peft_config(AdapterFolder::open(files, folder)).base, folder);
    }
    return "";
}

// Every file that the index names is there; without an index any weights are all.
bool has_weights(FileSystem& files, const std::string& snapshot) {
    const std::string index = inside(snapshot, kIndexName);
    if (!files.exists(index))
        return std::ranges::any_of(files.list(snapshot), [](const auto& name) { return name.ends_with(kShardEnding); });
    const Json whole = parse_json(read_text(files, index, kIndexBytesMax), index, ExitCode::model);
    if (!whole.is_object() || !whole.contains("weight_map")) return false;
    return std::ranges::all_of(whole["weight_map"], [&](const Json& shard) {
        return shard.is_string() && files.exists(inside(snapshot, shard.get<std::string>()));
    });
}

}  // namespace

std::optional<HubModel> hub_model_of(FileSystem& files, const std::string& name) {
    const std::string path = run_folder_of(files, name);
    if (const std::optional<HubModel> snapshot = of_snapshot(path)) return snapshot;
    const auto is_free_id = [&](const std::string& id) { return is_model_id(id) && !is_like_a_path(files, id); };
    if (files.exists(path)) {
        const std::string base = base_of_adapter(files, path);
        if (const std::optional<HubModel> snapshot = of_snapshot(base)) return snapshot;
        if (base.empty() || files.exists(base) || !is_free_id(base)) return std::nullopt;
        return HubModel{base, ""};
    }
    if (is_free_id(path)) return HubModel{path, ""};
    throw UserError(ExitCode::usage, "--download", "\"{}\" is neither a folder nor the id of a model on the Hub",
                    excerpt(path))
        .hint("OWNER/NAME, such as Qwen/Qwen3-0.6B");
}

bool is_in_cache(FileSystem& files, const HubModel& model, HubFiles which) {
    try {
        const std::string repo = inside(hub_cache_folder(), repo_folder(model.id));
        const std::string revision = model.revision.empty() ? main_revision(files, repo) : model.revision;
        const std::string snapshot = inside(inside(repo, "snapshots"), revision);
        if (!files.exists(inside(snapshot, "config.json"))) return false;
        return which == HubFiles::configuration || has_weights(files, snapshot);
    } catch (const Error&) {  // nothing is there, or a download that was cut off
        return false;
    }
}

ModelName name_of_model(const std::string& folder) {
    const std::filesystem::path path = folder;
    const std::string repo = path.parent_path().parent_path().filename().string();
    if (path.parent_path().filename() != "snapshots" || !repo.starts_with(kRepoPrefix)) return {folder, ""};
    return {id_of(repo), path.filename().string()};
}

std::string hub_cache_folder() {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
        if (const std::string cache = variable(name); !cache.empty()) return expanded(cache);
    }
    if (const std::string home = variable("HF_HOME"); !home.empty()) return inside(expanded(home), "hub");
    if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
        return inside(expanded(cache), "huggingface/hub");
    const std::string home = variable("HOME");
    return home.empty() ? "" : inside(home, ".cache/huggingface/hub");
}

ModelPlace find_model(FileSystem& files, const std::string& name) {
    if (const std::optional<ModelPlace> found = place_of_name(files, name)) return *found;
    const std::string path = run_folder_of(files, name);
    if (is_like_a_path(files, path)) return {path, ""};         // opening it says that it is not there
    const std::string local = path.substr(path.find('/') + 1);  // the whole where there is no '/'
    UserError error(ExitCode::model, path, "there is no such model folder, nor a model of this id in the cache {}",
                    hub_cache_folder());
    error.hint(fmt::format("hf download {} --local-dir {}, then {} as the model", path, local, local))
        .or_hint("--download, which runs hf");
    throw std::move(error);
}

}  // namespace windlass
