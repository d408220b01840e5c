#include "train/train.h"

#include <cmath>

#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "session/signals.h"

namespace windlass {
namespace {

// A run whose result nothing reads is a run all the same.
void print_outcome(const std::string& text) {
    try {
        print_result(text);
    } catch (const MachineError& error) {
        log_warning("{}; it was to be: {}", error.what(), text.substr(0, text.find_last_not_of('\n') + 1));
    }
}

}  // namespace

ExitCode run_train(const TrainArgs& args, LogFile& log) {
    outlive_readers();
    const Config config = config_from_words(args.words, ConfigUse::train);
    if (args.dry_run) {
        print_result(config_to_yaml(config));
        return ExitCode::ok;
    }
    log_info("planning {} for {}", config.method, config.model);
    RunControl control;
    const SignalScope signals(control);
    const TrainResult result =
        train(real_files(), config, {.control = &control, .log = &log, .trace = {args.trace, args.trace_steps}});
    if (args.json) {
        Json json = {{"schema_version", kSchemaVersion},
                     {"steps", result.steps},
                     {"total_steps", result.total_steps},
                     {"loss", result.loss},
                     {"final", result.final_folder},
                     {"predicted_bytes", result.predicted_bytes},
                     {"predicted_device_bytes", result.predicted_device_bytes},
                     {"peak_bytes", result.peak_bytes}};
        if (!std::isnan(result.eval_loss)) json["eval_loss"] = result.eval_loss;
        if (result.eval_score) json["eval_score"] = *result.eval_score;
        if (result.best_step) json["best_step"] = *result.best_step;
        if (!result.resume.empty()) json["resume"] = result.resume;
        for (const NextCommand& each : result.next) json["next"][each.name] = each.command;
        print_outcome(json.dump(2) + "\n");
    } else if (!result.final_folder.empty()) {
        print_outcome(result.final_folder + "\n");
    }
    return result.code;
}

}  // namespace windlass
