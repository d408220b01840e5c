#include "session/best_rule.h"

#include "base/error.h"
#include "config/config_best.h"

namespace windlass {

std::optional<BestRule> best_rule(const Config& config, const RunData* data) {
    if (!looks_for_best(config)) return std::nullopt;
    const std::string metric(best_metric(config));
    if (data != nullptr && data->eval_count() == 0)
        throw UserError(ExitCode::usage, "val_split", "leaves no rows to tell a better step by").hint("a larger one");
    if (const TaskSet* const task = data != nullptr ? data->eval_task() : nullptr;
        task != nullptr && metric != "loss") {
        const std::string_view reported = evaluated_measure(task->task);
        if (metric != reported)
            throw UserError(ExitCode::usage, "metric_for_best_model",
                            "is {}, but evaluations while training on task {} report loss and {}", metric,
                            task->task.name, reported)
                .hint(fmt::format("metric_for_best_model: {}", reported));
    }
    return BestRule{.metric = metric,
                    .greater_is_better = metric != "loss",
                    .keeps = config.load_best_model_at_end,
                    .patience = config.early_stopping_patience,
                    .threshold = config.early_stopping_threshold};
}

}  // namespace windlass
