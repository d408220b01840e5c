#include "persist/replay.h"

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"

namespace windlass {

ExitCode run_replay(const ReplayArgs& args, VerbOutput& out) {
    // A wrong flag is named before a missing folder.
    const auto type = gguf_type_of_flag(args.type);
    const ReplayResult result =
        replay_log(real_files(), {.base = model_folder(args.base, download_of(args.download, HubFiles::weights)),
                                  .log = args.log,
                                  .target = args.target,
                                  .type = type,
                                  .ignored_keys = args.ignored_keys,
                                  .step = args.step,
                                  .overwrite = args.overwrite,
                                  .threads = args.threads});
    print_folder(out, args.target, args.log, result.step, result.bytes);
    return ExitCode::ok;
}

}  // namespace windlass
