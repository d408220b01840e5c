#include "config/config_best.h"

#include "base/error.h"

namespace windlass {
namespace {

constexpr std::string_view kEval = "eval_";
constexpr size_t kSamplesMax = 64;
constexpr size_t kSampleBytesMax = size_t{1} << 16;

void check_metric(const Config& c, std::vector<std::string>& problems) {
    const std::string_view metric = best_metric(c);
    const bool is_loss = metric == "loss";
    if (!is_loss && c.task.empty())
        problems.push_back(
            fmt::format("metric_for_best_model is {}, but only a task has scores, and task is not set. Try: "
                        "metric_for_best_model: loss",
                        c.metric_for_best_model));
    const std::string_view wanted = is_loss ? "false" : "true";
    if (c.greater_is_better != "auto" && c.greater_is_better != wanted)
        problems.push_back(
            fmt::format("greater_is_better is {}, but a better {} is a {} one. Try: greater_is_better: {}",
                        c.greater_is_better, metric, is_loss ? "lesser" : "greater", wanted));
}

}  // namespace

bool looks_for_best(const Config& c) {
    return c.load_best_model_at_end || c.early_stopping_patience.has_value();
}

std::string_view best_metric(const Config& c) {
    std::string_view metric = c.metric_for_best_model;
    if (metric.starts_with(kEval)) metric.remove_prefix(kEval.size());
    return metric;
}

void check_best(const Config& c, std::vector<std::string>& problems) {
    const Config usual;
    if (!c.early_stopping_patience && c.early_stopping_threshold != usual.early_stopping_threshold)
        problems.emplace_back(
            "early_stopping_threshold has no meaning without early_stopping_patience. Try: early_stopping_patience: 3");
    const std::string_view key = c.load_best_model_at_end ? "load_best_model_at_end" : "early_stopping_patience";
    if (!looks_for_best(c)) {
        if (c.metric_for_best_model != usual.metric_for_best_model || c.greater_is_better != usual.greater_is_better)
            problems.emplace_back(
                "metric_for_best_model and greater_is_better have no meaning without a search for the best step. Try: "
                "load_best_model_at_end: true");
        return;
    }
    check_metric(c, problems);
    // eval_steps without rows has a line of its own.
    if (!c.eval_steps)
        problems.push_back(fmt::format(
            "{} compares evaluations, but there is only the one at the end. Try: eval_steps: 100, with eval_data or "
            "val_split",
            key));
}

void check_samples(const Config& c, std::vector<std::string>& problems) {
    if (c.sample_steps && c.sample_prompts.empty())
        problems.emplace_back("sample_steps is set, but there is nothing to continue. Try: sample_prompts: [TEXT]");
    if (!c.sample_prompts.empty() && !c.sample_steps && !c.eval_steps)
        problems.emplace_back("sample_prompts is set, but not when they are continued. Try: sample_steps: 100");
    if (c.sample_prompts.size() > kSamplesMax)
        problems.push_back(
            fmt::format("sample_prompts has {} texts, at most {} are continued", c.sample_prompts.size(), kSamplesMax));
    for (const std::string& prompt : c.sample_prompts) {
        if (prompt.size() > kSampleBytesMax)
            problems.push_back(
                fmt::format("sample_prompts: a text has {} bytes, {} are the most", prompt.size(), kSampleBytesMax));
    }
}

}  // namespace windlass
