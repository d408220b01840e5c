#include "persist/replay.h"

#include "app/cli/verbs.h"
#include "app/cli/words.h"

namespace windlass {

ExitCode run_replay(const ReplayArgs& args) {
    const std::optional<GgufType> type = gguf_type_of_flag(args.type);
    if (!real_files().exists(args.log))
        throw UserError(ExitCode::storage, args.log, "there is no such log")
            .hint("RUN/trajectory.wlt, which methods without a backward pass write");
    const ReplayResult result = replay_log(real_files(), {.base = model_folder(args.base),
                                                          .log = args.log,
                                                          .target = args.target,
                                                          .type = type,
                                                          .ignored_keys = args.ignored_keys,
                                                          .step = args.step,
                                                          .overwrite = args.overwrite,
                                                          .threads = args.threads});
    print_folder(args.json, args.target, args.log, result.step, result.bytes);
    return ExitCode::ok;
}

}  // namespace windlass
