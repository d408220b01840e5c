#include "train/final_folder.h"

#include <cerrno>

#include "base/activity.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "config/run_place.h"
#include "data/generation_config.h"
#include "format/manifest.h"
#include "format/side_file_copy.h"
#include "format/side_files.h"
#include "persist/export.h"
#include "persist/model_card.h"
#include "persist/run_identity.h"
#include "persist/run_parts.h"
#include "state/checkpoint.h"
#include "state/save_output.h"
#include "train/next_commands.h"

namespace windlass {
namespace {

void tell(const Session& session, const std::string& target, std::string_view which) {
    log_info("done: {} is {}{}", target,
             ends_as_adapter(session.model) ? "an adapter in the layout of peft" : "a complete model folder", which);
}

// Whether this file was there, and could be opened, when the run began: else a warning named it then.
bool can_be_read(FileSystem& files, const std::string& path) {
    try {
        if (!files.exists(path)) return false;
        files.open(path, {.mode = OpenMode::read});
    } catch (const MachineError& error) {
        return error.error_number() != EACCES && error.error_number() != EPERM;
    }
    return true;
}

// The run went back to an earlier step since.
bool was_undone(FileSystem& files, const std::string& run_folder, const RunState& state) {
    try {
        require_own_part(parts_in_run(files, run_folder), state, run_folder, "");
        return false;
    } catch (const UserError&) {
        return true;
    }
}

// A file that could not be read when weights were written, whose copies would be no whole models without it.
void add_side_files(FileSystem& files, const Session& session, const RunFolder& folder) {
    if (ends_as_adapter(session.model)) return;
    const std::string target = folder.file(kFinalName);
    for (const std::string& name : session.folder.side_files()) {
        const std::string from = path_in(session.folder.path(), name), to = path_in(target, name);
        if (files.exists(to) || !can_be_read(files, from)) continue;
        const std::string reason = copy_side_file(files, from, to);
        if (reason.empty()) continue;
        throw UserError(ExitCode::storage, target, "has the trained weights, but not {}, which could not be read: {}",
                        name, reason)
            .hint(fmt::format("{}, if it can be read", resume_command(folder.path())));
    }
    files.sync_folder(target);
}

}  // namespace

bool ends_with_earlier_step(const Session& session, const RunProgress& progress) {
    return session.best && session.best->keeps && progress.best.step > 0 && progress.best.step != progress.step;
}

bool is_over(const Session& session, const RunProgress& progress) {
    return progress.step >= session.total_steps() || (session.best && gives_up(*session.best, progress.best));
}

void keep_changed_texts(FileSystem& files, const Session& session, const RunFolder& folder) {
    if (const std::string& text = session.data->chat_template(); !text.empty())
        write_text_atomic(files, folder.file(kChatTemplateName), text);
    if (const std::string& text = session.generation_config; !text.empty())
        write_text_atomic(files, folder.file(kGenerationConfigName), text);
}

void write_final(FileSystem& files, const Session& session, const RunFolder& folder, const RunState& state,
                 const ReadMasters& masters) {
    const std::string target = folder.file(kFinalName);
    const OutputSource source = output_of(session);
    const std::string card = card_of_run(files, folder.path(), state, source, OutputForm::usual);
    save_output(files, source, target, {.save = {.overwrite = true, .card = card}}, masters);
    add_side_files(files, session, folder);
    tell(session, target, "");
}

// What a kill may leave of the manifest is next to the folder: inside, it would be a file that no model folder has, and
// only a model folder is replaced.
void seal_final(FileSystem& files, const RunFolder& folder, int64_t step, const RunState& state) {
    const std::string final_folder = folder.file(kFinalName);
    Manifest manifest{.step = step, .run_state = run_state_text(state)};
    for (const std::string& name : files.list(final_folder)) {
        if (name != kManifestName && files.status(path_in(final_folder, name)).is_regular)
            manifest.files.push_back(describe_file(files, final_folder, name));
    }
    write_manifest(files, final_folder, manifest, final_folder + ".tmp-manifest");
}

void write_final_of_checkpoint(FileSystem& files, const Session& session, const RunFolder& folder, int64_t step,
                               const RunState& state) {
    const std::string source = checkpoint_path(folder.path(), step), target = folder.file(kFinalName);
    const Activity writing("writing final/", 0, {.has_own_line = true});
    verify_checkpoint(files, source);
    export_model(files, {.source = source, .target = target, .overwrite = true});
    add_side_files(files, session, folder);
    const BestStep& best = state.progress.best;
    tell(session, target,
         fmt::format(", with the weights of step {}, the best one ({} {:.4f})", step, best.metric, best.value));
    seal_final(files, folder, step, state);
}

std::optional<RunState> ended_state(FileSystem& files, const std::string& run_folder) {
    const std::string folder = path_in(run_folder, kFinalName), own_id = run_id_of(files, run_folder);
    require_run_format(files, run_folder);
    if (own_id.empty() || !files.exists(path_in(folder, kManifestName))) return std::nullopt;
    try {
        const Manifest manifest = read_manifest(files, folder);
        for (const ManifestFile& file : manifest.files)
            if (!files.exists(path_in(folder, file.name))) return std::nullopt;
        RunState state = parse_run_state(manifest.run_state, folder);
        if (state.identity.run_id == own_id && !was_undone(files, run_folder, state)) return state;
    } catch (const UserError& error) {
        log_warning("{}", error.what());
    }
    return std::nullopt;
}

}  // namespace windlass
