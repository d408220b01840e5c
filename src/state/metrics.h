// metrics.h: what a step was like, in metrics.jsonl and TensorBoard events. Grammar: docs/format/metrics.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json_fwd.h"
#include "format/tfevents.h"

namespace windlass {

// Means over the pairs of answers of a step or of an evaluation.
struct PairRewards {
    double chosen = 0, rejected = 0, margin = 0, accuracy = 0;
};

// One line of metrics.jsonl; the names are its keys.
struct StepMetrics {
    int64_t step = 0;
    double epoch = 0;
    double time = 0;
    double loss = 0;
    double lr = 0;
    double grad_norm = 0;
    bool clipped = false;
    bool skipped = false;
    bool redone = false;
    int64_t tokens = 0;
    int64_t target_tokens = 0;
    int64_t tokens_total = 0;
    int64_t rounds = 0;  // of a step that writes answers; else 0
    double step_seconds = 0;
    double predicted_seconds = 0;
    double mfu = 0;
    double eta_seconds = 0;
    int64_t ram_bytes = 0;
    int64_t disk_read_bytes = 0;
    int64_t disk_write_bytes = 0;
    std::optional<double> eval_loss;
    std::string_view eval_measure;  // of a task: "accuracy", "exact_match"; its key is "eval_" and this
    std::optional<double> eval_score;
    std::optional<PairRewards> rewards, eval_rewards;  // of pairs of answers
    double eval_seconds = 0;

    double tokens_per_second() const { return step_seconds > 0 ? static_cast<double>(tokens) / step_seconds : 0; }
};

Json metrics_json(const StepMetrics& metrics);
// Of an evaluation alone, with the keys that it has in its step's line.
Json evaluation_json(const StepMetrics& metrics);
std::string metrics_line(
    const StepMetrics& metrics);  // as text, without the line end, with a checksum where it is read back

// A point of a curve: what loss_plot.h draws.
struct CurvePoint {
    int64_t step = 0;
    double value = 0;
};
struct LossCurves {
    std::vector<CurvePoint> train, eval;
};

// One of a metrics.jsonl: the values of a key, where they are finite; lines that are no metrics are skipped.
std::vector<CurvePoint> read_curve(FileSystem& files, const std::string& path, std::string_view key);

// The same of evaluations between two steps, these not the first but the last included, where a run's result depends on
// them. UserError(storage) if a step has no line, or the line of an evaluation is damaged.
std::vector<CurvePoint> read_evaluations(FileSystem& files, const std::string& path, std::string_view key,
                                         int64_t after, int64_t last);

// Reads a metrics.jsonl; lines that are no metrics are skipped.
LossCurves read_curves(FileSystem& files, const std::string& path);

// The last step whose line says that it wrote to disk, as every step with a working store does; 0 where there is none.
int64_t last_step_on_disk(FileSystem& files, const std::string& path);

// Bytes of a metrics.jsonl up to the line of the last step that is not later than this one, with it.
int64_t bytes_to_step(FileSystem& files, const std::string& path, int64_t step);

class MetricsWriter {
  public:
    // Appends to folder/metrics.jsonl after the last line of a step <= resumed_step; lines of later steps, and a line
    // that was cut off, go. report_to: "jsonl", "tensorboard".
    MetricsWriter(FileSystem& files, const std::string& folder, const std::vector<std::string>& report_to,
                  int64_t resumed_step, double wall_seconds);
    // Appends the line of the resumed step where it is missing: the run was killed between commit and line. Whether it
    // was.
    bool make_up(int64_t step, const std::string& line);
    // A line and events. Where a full disk throws, the same call again writes what is missing.
    void write(const StepMetrics& metrics);
    // Puts the evaluation after the last line's step into that line, where it lacks one: the run was killed before it.
    void add_evaluation(const StepMetrics& metrics);
    // All lines are on stable storage when it returns.
    void sync();
    // Whether the last line is this step's and has none.
    bool lacks_evaluation(int64_t step) const;

  private:
    void append(const std::string& line);
    void put_events(const StepMetrics& metrics);
    void put_evaluation_events(const StepMetrics& metrics);

    std::unique_ptr<File> lines_;
    int64_t end_ = 0;        // of lines_, in bytes
    std::string last_line_;  // of them
    int64_t last_step_ = 0;  // of the last line
    std::unique_ptr<EventWriter> events_;
};

}  // namespace windlass
