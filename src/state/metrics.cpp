#include "state/metrics.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "format/checksummed_json.h"

namespace windlass {
namespace {

constexpr size_t kLineMax = size_t{1} << 16;
constexpr int64_t kBlockBytes = int64_t{1} << 16;

Json number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
}

// Calls visit(line, end of the line in the file) for whole lines only. A block of the file at a time: it is read within
// the memory of a run, and may have a line for each of a million steps.
template <typename Visit>
void for_each_line(FileSystem& files, const std::string& path, Visit visit) {
    const std::unique_ptr<File> file = files.open(path, {});
    std::string block, line;
    const auto add = [&](std::string_view part) {
        if (line.size() <= kLineMax) line.append(part);
    };
    const int64_t size = file->size();
    for (int64_t offset = 0; offset < size; offset += std::ssize(block)) {
        block.resize(static_cast<size_t>(std::min(kBlockBytes, size - offset)));
        file->read_at(std::as_writable_bytes(std::span(block)), offset);
        std::string_view rest = block;
        for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
            add(rest.substr(0, end));
            const auto line_end = offset + (rest.data() - block.data()) + static_cast<int64_t>(end) + 1;
            if (line.size() <= kLineMax) visit(std::string_view(line), line_end);
            line.clear();
        }
        add(rest);
    }
}

struct KeptLines {
    std::string line;       // the last one
    int64_t end = 0;        // of it, in the file
    int64_t last_step = 0;  // that of the last one
};

// Lines of steps up to this one.
KeptLines lines_to_step(FileSystem& files, const std::string& path, int64_t step) {
    KeptLines kept;
    for_each_line(files, path, [&](std::string_view line, int64_t end) {
        const Json json = Json::parse(line, nullptr, false);
        if (!json.is_object()) return;
        const int64_t at = json.contains("step") ? integer_of(json["step"]).value_or(INT64_MAX) : 0;
        if (at > step) return;
        kept = {std::string(line), end, at};
    });
    return kept;
}

void put_rewards(const PairRewards& rewards, std::string_view prefix, Json& json) {
    const auto put = [&](std::string_view name, double value) {
        json[fmt::format("{}rewards/{}", prefix, name)] = number(value);
    };
    put("chosen", rewards.chosen);
    put("rejected", rewards.rejected);
    put("margins", rewards.margin);
    put("accuracies", rewards.accuracy);
}

void put_evaluation(const StepMetrics& m, Json& json) {
    json["eval_loss"] = number(*m.eval_loss);
    if (m.eval_score) json[fmt::format("eval_{}", m.eval_measure)] = number(*m.eval_score);
    if (m.eval_rewards) put_rewards(*m.eval_rewards, "eval_", json);
    json["eval_seconds"] = number(m.eval_seconds);
}

}  // namespace

Json metrics_json(const StepMetrics& m) {
    Json json = {{"step", m.step},         {"epoch", number(m.epoch)}, {"time", number(m.time)},
                 {"loss", number(m.loss)}, {"lr", number(m.lr)},       {"grad_norm", number(m.grad_norm)},
                 {"clipped", m.clipped}};
    if (m.skipped) json["skipped"] = true;
    if (m.redone) json["redone"] = true;
    if (m.rewards) put_rewards(*m.rewards, "", json);
    json["tokens"] = m.tokens;
    json["target_tokens"] = m.target_tokens;
    json["tokens_total"] = m.tokens_total;
    if (m.rounds > 0) json["rounds"] = m.rounds;
    json["step_seconds"] = number(m.step_seconds);
    json["predicted_seconds"] = number(m.predicted_seconds);
    json["tokens_per_second"] = number(m.tokens_per_second());
    json["mfu"] = number(m.mfu);
    json["eta_seconds"] = number(m.eta_seconds);
    json["ram_bytes"] = m.ram_bytes;
    if (m.disk_read_bytes + m.disk_write_bytes > 0) {
        json["disk_read_bytes"] = m.disk_read_bytes;
        json["disk_write_bytes"] = m.disk_write_bytes;
    }
    if (m.eval_loss) put_evaluation(m, json);
    return json;
}

Json evaluation_json(const StepMetrics& m) {
    Json json = {{"step", m.step}};
    put_evaluation(m, json);
    return json;
}

std::string metrics_line(const StepMetrics& m) {
    const std::string line = metrics_json(m).dump();
    return m.eval_loss ? line_with_checksum(line) : line;
}

std::vector<CurvePoint> read_curve(FileSystem& files, const std::string& path, std::string_view key) {
    std::vector<CurvePoint> curve;
    if (!files.exists(path)) return curve;
    for_each_line(files, path, [&](std::string_view line, int64_t) {
        const Json json = Json::parse(line, nullptr, false);
        const std::optional<int64_t> step =
            json.is_object() && json.contains("step") ? integer_of(json["step"]) : std::nullopt;
        if (step && json.contains(key) && json[key].is_number()) curve.push_back({*step, json[key].get<double>()});
    });
    return curve;
}

std::vector<CurvePoint> read_evaluations(FileSystem& files, const std::string& path, std::string_view key,
                                         int64_t after, int64_t last) {
    std::vector<CurvePoint> curve;
    int64_t next = after + 1;
    const auto refuse = [&](std::string_view what) {
        throw UserError(ExitCode::storage, path, "the line of step {} {}: which step was the best is not known", next,
                        what)
            .hint("--resume, which continues from the newest state; or --resume=STEP of a checkpoint");
    };
    if (!files.exists(path)) return curve;
    for_each_line(files, path, [&](std::string_view line, int64_t) {
        const Json json = Json::parse(line, nullptr, false);
        std::optional<int64_t> step;
        if (json.is_object() && json.contains("step")) step = integer_of(json["step"]);
        const bool is_wrong = line_checksum(line) == TextChecksum::wrong;
        if (next > last || (!is_wrong && step && *step <= after)) return;
        if (is_wrong) refuse("is damaged");
        if (step != next) refuse("is missing, or damaged");
        if (json.contains(key) && json[key].is_number()) curve.push_back({*step, json[key].get<double>()});
        ++next;
    });
    if (next <= last) refuse("is missing");
    return curve;
}

LossCurves read_curves(FileSystem& files, const std::string& path) {
    return {read_curve(files, path, "loss"), read_curve(files, path, "eval_loss")};
}

int64_t last_step_on_disk(FileSystem& files, const std::string& path) {
    int64_t last = 0;
    if (!files.exists(path)) return last;
    for_each_line(files, path, [&](std::string_view line, int64_t) {
        const Json json = Json::parse(line, nullptr, false);
        const auto count = [&](const char* key) {
            const bool is_there = json.is_object() && json.contains(key) && json[key].is_number_integer();
            return is_there ? json[key].get<int64_t>() : 0;
        };
        if (count("disk_write_bytes") > 0) last = std::max(last, count("step"));
    });
    return last;
}

int64_t bytes_to_step(FileSystem& files, const std::string& path, int64_t step) {
    return lines_to_step(files, path, step).end;
}

MetricsWriter::MetricsWriter(FileSystem& files, const std::string& folder, const std::vector<std::string>& report_to,
                             int64_t resumed_step, double wall_seconds) {
    const auto wants = [&](std::string_view name) { return std::count(report_to.begin(), report_to.end(), name) > 0; };
    if (wants("jsonl")) {
        const std::string path = fmt::format("{}/metrics.jsonl", folder);
        if (files.exists(path)) {
            const KeptLines kept = lines_to_step(files, path, resumed_step);
            end_ = kept.end;
            last_line_ = kept.line;
            last_step_ = kept.last_step;
        }
        lines_ = files.open(path, {files.exists(path) ? OpenMode::update : OpenMode::create});
        lines_->truncate(end_);
        files.sync_folder(folder);
    }
    if (wants("tensorboard")) events_ = std::make_unique<EventWriter>(files, folder, wall_seconds, resumed_step + 1);
}

void MetricsWriter::append(const std::string& line) {
    const std::string whole = line + "\n";
    lines_->write_at(std::as_bytes(std::span(whole)), end_);
    end_ += std::ssize(whole);
    last_line_ = line;
}

bool MetricsWriter::make_up(int64_t step, const std::string& line) {
    const bool is_missing = lines_ != nullptr && last_step_ < step && !line.empty();
    if (is_missing) append(line);
    return is_missing;
}

void MetricsWriter::sync() {
    if (lines_ != nullptr) lines_->sync();
}

bool MetricsWriter::lacks_evaluation(int64_t step) const {
    const Json json = Json::parse(last_line_, nullptr, false);
    return lines_ != nullptr && json.is_object() && !json.contains("eval_loss") && json.contains("step") &&
           integer_of(json["step"]) == step;
}

void MetricsWriter::add_evaluation(const StepMetrics& metrics) {
    if (!lacks_evaluation(metrics.step)) return;
    Json json = Json::parse(last_line_);
    json.erase("checksum");  // of a line that lost its evaluation
    put_evaluation(metrics, json);
    end_ -= std::ssize(last_line_) + 1;
    append(line_with_checksum(json.dump()));
    if (events_ == nullptr) return;
    put_evaluation_events(metrics);
    events_->flush();
}

void MetricsWriter::write(const StepMetrics& metrics) {
    const bool is_new = last_step_ < metrics.step;
    if (lines_ != nullptr && is_new) append(metrics_line(metrics));
    last_step_ = metrics.step;
    if (events_ == nullptr) return;
    if (is_new) put_events(metrics);
    events_->flush();
}

void MetricsWriter::put_events(const StepMetrics& m) {
    const auto scalar = [&](std::string_view tag, double value) {
        events_->scalar(tag, m.step, static_cast<float>(value), m.time);
    };
    scalar("train/loss", m.loss);
    scalar("train/lr", m.lr);
    scalar("train/grad_norm", m.grad_norm);
    scalar("train/epoch", m.epoch);
    scalar("train/tokens_per_second", m.tokens_per_second());
    if (m.rewards) {
        scalar("train/rewards/chosen", m.rewards->chosen);
        scalar("train/rewards/rejected", m.rewards->rejected);
        scalar("train/rewards/margins", m.rewards->margin);
        scalar("train/rewards/accuracies", m.rewards->accuracy);
    }
    if (m.rounds > 0) scalar("train/rounds", static_cast<double>(m.rounds));
    scalar("train/step_seconds", m.step_seconds);
    scalar("train/predicted_seconds", m.predicted_seconds);
    scalar("train/mfu", m.mfu);
    scalar("train/ram_bytes", static_cast<double>(m.ram_bytes));
    put_evaluation_events(m);
}

void MetricsWriter::put_evaluation_events(const StepMetrics& m) {
    const auto scalar = [&](std::string_view tag, double value) {
        events_->scalar(tag, m.step, static_cast<float>(value), m.time);
    };
    if (m.eval_loss) scalar("eval/loss", *m.eval_loss);
    if (m.eval_score) scalar(fmt::format("eval/{}", m.eval_measure), *m.eval_score);
    if (m.eval_rewards) scalar("eval/rewards/margins", m.eval_rewards->margin);
}

}  // namespace windlass
