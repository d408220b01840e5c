#include "persist/run_names.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file_error.h"
#include "config/run_place.h"
#include "data/generation_config.h"
#include "format/manifest.h"
#include "format/side_files.h"
#include "method/phase.h"
#include "persist/export_request.h"
#include "persist/run_folder.h"
#include "persist/trajectory_log.h"
#include "state/checkpoint.h"

namespace windlass {
namespace {

constexpr std::string_view kPlainNames[] = {
    "run.yaml",         "log.txt",        "metrics.jsonl",  "loss.svg",        kFinalName,
    kSamplesName,       kReferencesName,  kSaveRequestName, kChatTemplateName, kGenerationConfigName,
    kExportRequestName, kStopRequestName, kEventsName,      kTrajectoryName,   kTrajectoryStateName};

// Takes at least one digit from the front.
bool take_digits(std::string_view& name) {
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(digits);
    return digits > 0;
}

// What follows `prefix` and a number; nothing for other names.
std::optional<std::string_view> after_number(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    return take_digits(name) ? std::optional(name) : std::nullopt;
}

// "", or what a kill leaves at the end of a name that is replaced.
bool is_one_of(std::optional<std::string_view> ending, std::initializer_list<std::string_view> endings) {
    return ending && std::ranges::find(endings, *ending) != endings.end();
}

// A kill while one is removed may leave its model and neither manifest nor state.
bool holds_checkpoint(FileSystem& files, const std::string& path) {
    if (!files.exists(path) || !files.status(path).is_folder) return false;
    if (files.exists(path_in(path, kManifestName)) || files.exists(path_in(path, kStateFile))) return true;
    return std::ranges::all_of(files.list(path),
                               [](const std::string& name) { return name == kModelFolder || name == kAdapterFolder; });
}

// "undone-checkpoint-8", "undone-checkpoint-8.2"
bool is_undone(std::string_view name) {
    std::optional<std::string_view> rest = after_number(name, "undone-checkpoint-");
    if (!rest) return false;
    if (rest->starts_with('.')) {
        rest->remove_prefix(1);
        if (!take_digits(*rest)) return false;
    }
    return rest->empty();
}

// "events.out.tfevents.1732800000.windlass", "events.out.tfevents.1732800000.windlass.1"
bool is_event_file(std::string_view name) {
    std::optional<std::string_view> rest = after_number(name, "events.out.tfevents.");
    constexpr std::string_view kOurs = ".windlass";
    if (!rest || !rest->starts_with(kOurs)) return false;
    rest->remove_prefix(kOurs.size());
    if (rest->starts_with('.')) {
        rest->remove_prefix(1);
        if (!take_digits(*rest)) return false;
    }
    return rest->empty();
}

// "refresh-12.json"
bool is_report(std::string_view name, const Phase& phase) {
    return is_one_of(after_number(name, fmt::format("{}-", phase.name)), {".json", ".json.tmp"});
}

// "export-reply-4321-1732800000000000000"
bool is_reply(std::string_view name) {
    const std::optional<std::string_view> rest = after_number(name, kExportReplyPrefix);
    return rest && rest->starts_with('-') && is_one_of(after_number(*rest, "-"), {"", ".tmp"});
}

}  // namespace

bool is_of_a_run(FileSystem& files, const std::string& run_folder, std::string_view name) {
    if (std::ranges::find(kPlainNames, name) != std::end(kPlainNames)) return true;
    if (is_event_file(name) || is_reply(name)) return true;
    if (is_one_of(after_number(name, "bad-batch-"), {".json", ".json.tmp"})) return true;
    if (std::ranges::any_of(all_phases(), [&](const Phase* phase) { return is_report(name, *phase); })) return true;
    if (is_one_of(after_number(name, "export-"), {"", ".tmp-writing", ".tmp-replaced"})) return true;
    if (name == "final.tmp-writing" || name == "final.tmp-replaced" || name == "final.tmp-manifest") return true;
    if (is_unfinished_checkpoint(name)) return true;  // a kill may leave any part of it
    const bool is_checkpoint = is_one_of(after_number(name, "checkpoint-"), {"", ".replaced"}) || is_undone(name);
    return is_checkpoint && holds_checkpoint(files, path_in(run_folder, name));
}

}  // namespace windlass
