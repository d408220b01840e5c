#include "train/run_status.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/shell_word.h"
#include "base/units.h"
#include "config/run_place.h"
#include "format/manifest.h"
#include "persist/run_folder.h"
#include "persist/trajectory_log.h"
#include "state/checkpoint.h"
#include "train/next_commands.h"

namespace windlass {
namespace {

constexpr int64_t kTailBytes = int64_t{256} << 10;  // many lines of either file
constexpr int kFoldersDeep = 3;
constexpr size_t kRunsMost = 1000;

// The whole lines at the end of a file that are objects; none where it is not there.
std::vector<SortedJson> last_lines(FileSystem& files, const std::string& path) {
    std::vector<SortedJson> lines;  // of hostile ones too, with any number of keys
    if (!files.exists(path) || !files.status(path).is_regular) return lines;
    const std::unique_ptr<File> file = files.open(path, {});
    const int64_t size = file->size(), begin = std::max<int64_t>(0, size - kTailBytes);
    std::string text(static_cast<size_t>(size - begin), '\0');
    file->read_at(std::as_writable_bytes(std::span(text)), begin);
    std::string_view rest = text;
    if (begin > 0) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
        SortedJson json = SortedJson::parse(rest.substr(0, end), nullptr, false);
        if (json.is_object()) lines.push_back(std::move(json));
    }
    return lines;
}

std::optional<double> number_in(const SortedJson& json, std::string_view key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<int64_t> integer_in(const SortedJson& json, std::string_view key) {
    const auto found = json.find(key);
    return found != json.end() ? integer_of(*found) : std::nullopt;
}

std::string text_in(const SortedJson& json, std::string_view key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

void take_metrics(const std::vector<SortedJson>& lines, RunStatus& status) {
    for (const SortedJson& line : lines) {
        const std::optional<int64_t> step = integer_in(line, "step");
        if (!step) continue;
        status.step = *step;
        status.loss = number_in(line, "loss");
        status.step_seconds = number_in(line, "step_seconds");
        status.predicted_seconds = number_in(line, "predicted_seconds");
        status.tokens_per_second = number_in(line, "tokens_per_second");
        status.eta_seconds = number_in(line, "eta_seconds");
        status.updated = number_in(line, "time");
        status.ram_bytes = integer_in(line, "ram_bytes");
        if (const std::optional<double> loss = number_in(line, "eval_loss")) status.eval_loss = loss;
    }
}

// Of the last process that trained into the folder.
void take_events(const std::vector<SortedJson>& lines, RunStatus& status) {
    for (const SortedJson& line : lines) {
        const std::string event = text_in(line, "event");
        if (event == "run") {
            status.run_id = text_in(line, "run_id");
            status.total_steps = integer_in(line, "total_steps");
            status.phase = RunPhase::killed;  // as long as no end follows
            status.code.reset();
        }
        if (event == "plan") status.planned_bytes = integer_in(line, "memory_bytes");
        const bool is_done = event == "done", is_stopped = event == "stopped", is_failed = event == "error";
        if (!is_done && !is_stopped && !is_failed) continue;
        status.phase = is_done ? RunPhase::done : is_stopped ? RunPhase::stopped : RunPhase::failed;
        status.code = static_cast<ExitCode>(integer_in(line, "code").value_or(0));
        status.reason = is_failed ? text_in(line, "text") : "";
    }
}

// A lock that only a user can judge is taken for one of a process that trains.
bool is_held(FileSystem& files, const std::string& folder) {
    try {
        return !lock_idle_run(files, folder).has_value();
    } catch (const UserError&) {
        return true;
    }
}

void add_line(std::string& text, std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<12}{}\n", name, value);
}

std::string steps_text(const RunStatus& status) {
    if (!status.total_steps) return fmt::format("step {}", status.step);
    return fmt::format("step {} of {}", status.step, *status.total_steps);
}

std::string phase_text(const RunStatus& status) {
    std::string text = fmt::format("{}, {}", run_phase_name(status.phase), steps_text(status));
    if (status.phase == RunPhase::training && status.eta_seconds && *status.eta_seconds > 0)
        text += fmt::format(", about {} left", format_seconds(*status.eta_seconds));
    return text;
}

std::string loss_text(const RunStatus& status) {
    if (!status.loss) return "";
    return fmt::format("{:.4f}{}", *status.loss,
                       status.eval_loss ? fmt::format(", {:.4f} of the evaluation rows", *status.eval_loss) : "");
}

std::string speed_text(const RunStatus& status) {
    if (!status.step_seconds || !status.predicted_seconds || !status.tokens_per_second) return "";
    return fmt::format("{} a step, {} planned; {:.0f} tokens/s", format_seconds(*status.step_seconds),
                       format_seconds(*status.predicted_seconds), *status.tokens_per_second);
}

std::string memory_text(const RunStatus& status) {
    if (!status.ram_bytes) return "";
    return fmt::format("{}{}", format_bytes(*status.ram_bytes),
                       status.planned_bytes ? fmt::format(", {} planned", format_bytes(*status.planned_bytes)) : "");
}

// A working store lies elsewhere, and may not be there any more: --resume will tell.
bool has_state_left(FileSystem& files, const RunStatus& status) {
    if (!status.checkpoints.empty() || files.exists(path_in(status.folder, kTrajectoryName))) return true;
    try {
        const std::vector<std::string> drive = values_in_run(files, status.folder, "ssd_dir");
        return !drive.empty() && drive.front() != "null";
    } catch (const Error&) {
        return true;  // a run.yaml that cannot be read, of which --resume says more
    }
}

}  // namespace

std::string_view run_phase_name(RunPhase phase) {
    switch (phase) {
        case RunPhase::training:
            return "training";
        case RunPhase::done:
            return "done";
        case RunPhase::stopped:
            return "stopped";
        case RunPhase::failed:
            return "failed";
        case RunPhase::killed:
            return "killed";
    }
    return "";
}

RunStatus read_run_status(FileSystem& files, const std::string& run_folder) {
    if (!is_run_folder(files, run_folder))
        throw UserError(ExitCode::usage, run_folder, "is not the folder of a run").hint("windlass runs");
    RunStatus status{.folder = run_folder};
    const auto path = [&](const char* name) { return path_in(run_folder, name); };
    // Before what it wrote: a run that ends meanwhile has then said how.
    const bool trains = is_held(files, run_folder);
    take_metrics(last_lines(files, path("metrics.jsonl")), status);
    const std::vector<SortedJson> events = last_lines(files, path(kEventsName));
    status.has_final = files.exists(path_in(path(kFinalName), kManifestName));
    if (events.empty() && status.has_final) status.phase = RunPhase::done;  // of a program without events
    take_events(events, status);
    if (trains) status.phase = RunPhase::training;
    if (!trains) status.eta_seconds.reset();
    for (const CheckpointPlace& place : list_checkpoints(files, run_folder)) status.checkpoints.push_back(place.step);
    status.may_resume = has_state_left(files, status);
    return status;
}

Json run_status_json(const RunStatus& status) {
    Json json = {
        {"folder", status.folder}, {"run_id", status.run_id},           {"state", run_phase_name(status.phase)},
        {"step", status.step},     {"checkpoints", status.checkpoints}, {"has_final", status.has_final}};
    const auto put = [&](const char* key, const auto& value) {
        if (value) json[key] = *value;
    };
    put("total_steps", status.total_steps);
    put("loss", status.loss);
    put("eval_loss", status.eval_loss);
    put("step_seconds", status.step_seconds);
    put("predicted_seconds", status.predicted_seconds);
    put("tokens_per_second", status.tokens_per_second);
    put("eta_seconds", status.eta_seconds);
    put("updated", status.updated);
    put("ram_bytes", status.ram_bytes);
    put("planned_bytes", status.planned_bytes);
    if (status.code) json["exit_code"] = static_cast<int>(*status.code);
    if (!status.reason.empty()) json["reason"] = status.reason;
    return json;
}

std::string run_status_text(const RunStatus& status) {
    std::string text;
    add_line(text, "run", status.folder);
    add_line(text, "state", phase_text(status));
    add_line(text, "reason", status.reason);
    add_line(text, "loss", loss_text(status));
    add_line(text, "speed", speed_text(status));
    add_line(text, "memory", memory_text(status));
    if (!status.checkpoints.empty())
        add_line(text, "checkpoints", fmt::format("of step {}", fmt::join(status.checkpoints, ", ")));
    if (status.has_final) add_line(text, "final", path_in(status.folder, kFinalName));
    const bool goes_on = status.phase == RunPhase::stopped || status.phase == RunPhase::killed;
    if (goes_on && status.may_resume) add_line(text, "continue", resume_command(status.folder));
    if (goes_on && !status.may_resume) add_line(text, "begin again", overwrite_command(status.folder));
    return text;
}

std::string run_status_line(const RunStatus& status) {
    return fmt::format("{}: {}{}", status.folder, phase_text(status),
                       status.loss ? fmt::format(", loss {:.4f}", *status.loss) : "");
}

namespace {

// Whether a folder lies there, and not a link, which may lead round in a circle.
bool is_own_folder(FileSystem& files, const std::string& folder, const std::string& name) {
    const std::string path = path_in(folder, name);
    return files.status(path).is_folder && files.resolve(path) == path_in(files.resolve(folder), name);
}

void add_runs(FileSystem& files, const std::string& folder, int deep, std::vector<std::string>& found) {
    if (found.size() >= kRunsMost) return;
    if (is_run_folder(files, folder)) {
        found.push_back(folder);
        return;  // what is below it belongs to it
    }
    if (deep == 0) return;
    for (const std::string& name : files.list(folder)) {
        try {
            if (!name.starts_with('.') && is_own_folder(files, folder, name))
                add_runs(files, folder == "." ? name : path_in(folder, name), deep - 1, found);
        } catch (const MachineError&) {  // of another user
        }
    }
}

}  // namespace

std::vector<std::string> find_runs(FileSystem& files, const std::string& folder) {
    std::vector<std::string> found;
    add_runs(files, folder, kFoldersDeep, found);
    return found;
}

}  // namespace windlass
