// status.cpp: what the folders of runs say, while they train and later.
#include <chrono>
#include <thread>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "config/config.h"
#include "config/config_schema.h"
#include "config/run_place.h"
#include "session/run_text.h"
#include "train/run_status.h"

namespace windlass {
namespace {

constexpr EventKind kStatus{.name = "status"};
constexpr auto kPause = std::chrono::milliseconds(500);

// A line whenever something has changed.
RunStatus follow(const std::string& folder, VerbOutput& out) {
    for (std::string last;; std::this_thread::sleep_for(kPause)) {
        RunStatus status = read_run_status(real_files(), folder);
        const std::string line = run_status_line(status) + "\n";
        if (line != std::exchange(last, line)) {
            if (out.is_text()) print_result(line);
            out.tell(kStatus, run_status_json(status));
        }
        if (status.phase != RunPhase::training) return status;
    }
}

ExitCode code_of(const RunStatus& status) {
    return status.code.value_or(status.phase == RunPhase::done ? ExitCode::ok : ExitCode::terminated);
}

// Those of the run that differ from their defaults; none where its run.yaml cannot be read.
Json with_settings(Json status, const std::string& folder) {
    try {
        const std::vector<ConfigEntry> entries = read_config_file(real_files(), config_file_of(real_files(), folder));
        status["settings"] = changed_settings_json(make_config({.file = entries}, ConfigUse::train).config);
    } catch (const Error&) {
    }
    return status;
}

std::string loss_of(const std::optional<double>& loss) {
    return loss ? fmt::format("{:.4f}", *loss) : "";
}

}  // namespace

ExitCode run_status(const StatusArgs& args, VerbOutput& out) {
    const std::string folder = run_folder_of(real_files(), args.run);
    const RunStatus status = args.follow ? follow(folder, out) : read_run_status(real_files(), folder);
    const ExitCode code = args.follow ? code_of(status) : ExitCode::ok;
    if (out.is_text() && !args.follow) print_result(run_status_text(status));
    if (!out.is_text()) out.result(with_settings(run_status_json(status), folder), code);
    return code;
}

ExitCode run_runs(const RunsArgs& args, VerbOutput& out) {
    FileSystem& files = real_files();
    std::vector<std::vector<std::string>> rows = {{"run", "state", "step", "of", "loss", "evaluation"}};
    Json list = Json::array();
    for (const std::string& folder : find_runs(files, args.folder)) {
        const RunStatus status = read_run_status(files, folder);
        rows.push_back({folder, std::string(run_phase_name(status.phase)), std::to_string(status.step),
                        status.total_steps ? std::to_string(*status.total_steps) : "", loss_of(status.loss),
                        loss_of(status.eval_loss)});
        list.push_back(run_status_json(status));
    }
    if (!out.is_text())
        out.result({{"runs", list}});
    else if (rows.size() > 1)
        print_result(aligned_table(rows));
    return ExitCode::ok;
}

}  // namespace windlass
