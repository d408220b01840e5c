#include "train/replay.h"

#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/units.h"

namespace windlass {

ExitCode run_replay(const ReplayArgs& args) {
    const ReplayResult result = replay_log(real_files(), {.base = args.base,
                                                          .log = args.log,
                                                          .target = args.target,
                                                          .step = args.step,
                                                          .overwrite = args.overwrite,
                                                          .threads = args.threads});
    if (args.json) {
        print_result(Json({{"schema_version", kSchemaVersion},
                           {"folder", args.target},
                           {"from", args.log},
                           {"step", result.step},
                           {"bytes", result.bytes}})
                         .dump(2) +
                     "\n");
    } else {
        print_result(
            fmt::format("{}: step {} of {}, {}\n", args.target, result.step, args.log, format_bytes(result.bytes)));
    }
    return ExitCode::ok;
}

}  // namespace windlass
