#include "state/checkpoint.h"

#include <charconv>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/units.h"
#include "format/manifest.h"
#include "format/store.h"
#include "model/adapters/peft.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kUnfinished = ".tmp";
constexpr std::string_view kReplaced = ".replaced";  // until the new one of that step has its name

// Of a checkpoint, or one that was replaced.
std::optional<int64_t> step_of(std::string_view name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    name.remove_prefix(kPrefix.size());
    if (name.ends_with(kReplaced)) name.remove_suffix(kReplaced.size());
    int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
    return step;
}

// The model's own weights stay what they were, and what is written is an adapter next to them.
bool has_base(const TrainedModel& model) {
    return model.adapter && refreshed_layers(model).empty();
}

void save_files(FileSystem& files, const CheckpointSource& source, const std::string& folder, const RunState& state) {
    const bool is_adapter = has_base(source.output.model);
    const char* const output = is_adapter ? kAdapterFolder : kModelFolder;
    const OutputForm form = is_adapter ? OutputForm::adapter : OutputForm::usual;
    save_output(files, source.output, path_in(folder, output), {.form = form},
                [&](int param, int64_t first, std::span<float> out) { source.engine.read_masters(param, first, out); });
    source.engine.snapshot(fmt::format("{}/{}", folder, kStateFile), state.progress.step, run_state_text(state));
    Manifest manifest{.step = state.progress.step, .run_state = run_state_text(state)};
    for (const std::string& name : files.list(path_in(folder, output)))
        manifest.files.push_back(describe_file(files, folder, path_in(output, name)));
    manifest.files.push_back(describe_file(files, folder, kStateFile));
    write_manifest(files, folder, manifest);
}

// At every moment there is a whole checkpoint under one of the two names.
void replace(FileSystem& files, const std::string& unfinished, const std::string& target) {
    if (!files.exists(target)) return files.rename(unfinished, target);
    const std::string old = fmt::format("{}{}", target, kReplaced);
    files.remove_tree(old);
    files.rename(target, old);
    try {
        files.rename(unfinished, target);
    } catch (const Error&) {
        files.rename(old, target);
        throw;
    }
    files.remove_tree(old);
}

// Under the name of an unfinished one first: whatever ends this, no part of it is left that looks like a checkpoint.
void remove_whole(FileSystem& files, const std::string& run_folder, const std::string& path) {
    const std::string doomed = fmt::format("{}{}", path, kUnfinished);
    files.remove_tree(doomed);
    files.rename(path, doomed);
    files.sync_folder(run_folder);
    files.remove_tree(doomed);
}

}  // namespace

bool is_unfinished_checkpoint(std::string_view name) {
    return name.ends_with(kUnfinished) && step_of(name.substr(0, name.size() - kUnfinished.size()));
}

std::vector<CheckpointPlace> list_checkpoints(FileSystem& files, const std::string& run_folder) {
    std::vector<CheckpointPlace> places;
    if (!files.exists(run_folder)) return places;
    for (const std::string& name : files.list(run_folder)) {
        const std::string path = fmt::format("{}/{}", run_folder, name);
        const std::optional<int64_t> step = step_of(name);
        // After a kill between the two renames, the older checkpoint counts.
        const bool is_old = name.ends_with(kReplaced);
        if (is_old && files.exists(path.substr(0, path.size() - kReplaced.size()))) continue;
        if (step && files.exists(fmt::format("{}/{}", path, kManifestName))) places.push_back({*step, path});
    }
    std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    return places;
}

void write_checkpoint(FileSystem& files, const CheckpointSource& source, const std::string& run_folder,
                      const RunState& state) {
    const std::string target = checkpoint_path(run_folder, state.progress.step);
    const std::string unfinished = fmt::format("{}{}", target, kUnfinished);
    files.remove_tree(unfinished);
    files.make_folders(unfinished);
    try {
        save_files(files, source, unfinished, state);
        files.sync_folder(unfinished);
        replace(files, unfinished, target);
        files.sync_folder(run_folder);
    } catch (const Error&) {
        files.remove_tree(unfinished);
        throw;
    }
}

int64_t checkpoint_bytes(FileSystem& files, const ModelFolder& base, const TrainedModel& model, const Recipe& recipe) {
    constexpr int64_t kSmallFiles = 1 * kMiB;  // config, index, manifest, and the last block of each file
    int64_t bytes = Store::file_bytes(store_layout(model, recipe, 1, "")) + kSmallFiles;
    if (has_base(model)) return bytes + peft_bytes(model);
    for (const auto* names : {&base.shard_files(), &base.side_files()}) {
        for (const std::string& name : *names) bytes += files.status(fmt::format("{}/{}", base.path(), name)).bytes;
    }
    return bytes;
}

std::string checkpoint_path(const std::string& run_folder, int64_t step) {
    return fmt::format("{}/{}{}", run_folder, kPrefix, step);
}

void remove_unfinished_checkpoints(FileSystem& files, const std::string& run_folder) {
    for (const std::string& name : files.list(run_folder)) {
        const std::string path = fmt::format("{}/{}", run_folder, name);
        if (is_unfinished_checkpoint(name)) files.remove_tree(path);
        const bool is_old = name.ends_with(kReplaced) && step_of(name);
        if (is_old && files.exists(path.substr(0, path.size() - kReplaced.size()))) files.remove_tree(path);
    }
}

void prune_checkpoints(FileSystem& files, const std::string& run_folder, std::optional<int64_t> limit,
                       std::optional<int64_t> kept) {
    remove_unfinished_checkpoints(files, run_folder);
    if (!limit) return;
    const std::vector<CheckpointPlace> places = list_checkpoints(files, run_folder);
    for (int64_t i = 0; i + *limit < std::ssize(places); ++i) {
        if (const CheckpointPlace& place = places[static_cast<size_t>(i)]; place.step != kept)
            remove_whole(files, run_folder, place.path);
    }
}

RunState verify_checkpoint(FileSystem& files, const std::string& path) {
    const Manifest manifest = read_manifest(files, path);
    verify_manifest(files, path, manifest);
    return parse_run_state(manifest.run_state, path);
}

bool ends_with_whole_checkpoint(FileSystem& files, const std::string& run_folder, int64_t step) {
    const std::vector<CheckpointPlace> places = list_checkpoints(files, run_folder);
    if (places.empty() || places.back().step != step) return false;
    try {
        verify_checkpoint(files, places.back().path);
        return true;
    } catch (const UserError& error) {
        log_warning("{}", error.what());
        return false;
    }
}

}  // namespace windlass
