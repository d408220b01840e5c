#include "train/final_folder.h"

#include "base/file_error.h"
#include "base/log.h"
#include "format/manifest.h"
#include "persist/export.h"
#include "state/checkpoint.h"
#include "state/save_output.h"

namespace windlass {
namespace {

// Killed before this, the run goes on and writes the folder again. What a kill may leave of the manifest lies beside
// the folder: inside, it would be a file of nobody, and only a model folder is replaced.
void say_step(FileSystem& files, const std::string& final_folder, int64_t step, std::string run_state) {
    Manifest manifest{.step = step, .run_state = std::move(run_state)};
    for (const std::string& name : files.list(final_folder)) {
        if (files.status(path_in(final_folder, name)).is_regular)
            manifest.files.push_back(describe_file(files, final_folder, name));
    }
    write_manifest(files, final_folder, manifest, final_folder + ".tmp-manifest");
}

void tell(const Session& session, const std::string& target, std::string_view which) {
    log_info("done: {} is {}{}", target,
             ends_as_adapter(session.model) ? "an adapter in the layout of peft" : "a complete model folder", which);
}

}  // namespace

bool ends_with_earlier_step(const Session& session, const RunProgress& progress) {
    return session.best && session.best->keeps && progress.best.step > 0 && progress.best.step != progress.step;
}

void write_final(FileSystem& files, const Session& session, const RunFolder& folder, const RunState& state,
                 const ReadMasters& masters) {
    const std::string target = folder.file(kFinalName);
    save_output(files, output_of(session), target, {.save = {.overwrite = true}}, masters);
    say_step(files, target, state.progress.step, run_state_text(state));
    tell(session, target, "");
}

void write_final_of_checkpoint(FileSystem& files, const Session& session, const RunFolder& folder, int64_t step) {
    const std::string source = checkpoint_path(folder.path(), step), target = folder.file(kFinalName);
    const RunState state = verify_checkpoint(files, source);
    export_model(files, {.source = source, .target = target, .overwrite = true});
    say_step(files, target, step, run_state_text(state));
    const BestStep& best = state.progress.best;
    tell(session, target,
         fmt::format(", with the weights of step {}, the best one ({} {:.4f})", step, best.metric, best.value));
}

}  // namespace windlass
