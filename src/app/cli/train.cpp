#include "train/train.h"

#include <cmath>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "session/signals.h"

namespace windlass {
namespace {

Json result_json(const TrainResult& result) {
    Json json = {{"steps", result.steps},
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
    return json;
}

void tell(const TrainResult& result, VerbOutput& out) {
    const Json json = result_json(result);
    if (out.is_text() && !result.final_folder.empty()) print_result(result.final_folder + "\n");
    if (result.code == ExitCode::ok)
        out.result(json);
    else
        out.stopped(json, result.code);
}

}  // namespace

ExitCode run_train(const TrainArgs& args, VerbOutput& out, LogFile& log) {
    const Config config =
        config_from_words(args.words, ConfigUse::train,
                          download_of(args.download, args.dry_run ? HubFiles::configuration : HubFiles::weights));
    if (args.dry_run) {
        if (out.is_text())
            print_result(config_to_yaml(config));
        else
            out.result({{"yaml", config_to_yaml(config)}});
        return ExitCode::ok;
    }
    log_info("planning {} for {}", config.method, config.model);
    RunControl control;
    const SignalScope signals(control);
    const TrainResult result =
        train(real_files(), config,
              {.control = &control, .log = &log, .events = &out.events(), .trace = {args.trace, args.trace_steps}});
    try {
        tell(result, out);
    } catch (const MachineError& error) {  // a run whose result nothing reads is a run all the same
        log_warning("{}; it was to be: {}", error.what(),
                    out.is_text() ? result.final_folder : result_json(result).dump());
    }
    return result.code;
}

}  // namespace windlass
