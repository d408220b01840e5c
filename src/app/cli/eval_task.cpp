#include <fmt/ranges.h>

#include "app/cli/eval.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/units.h"
#include "data/data.h"
#include "infer/task_evaluate.h"

namespace windlass {
namespace {

// Rows of the training files with their right answers, in front of each prompt.
std::string demonstrations(const TaskSpec& task, const Config& config, int64_t shots) {
    if (shots == 0) return "";
    if (config.train_data.empty())
        throw UserError(ExitCode::usage, "shots", "demonstrations come out of train_data, which is not set")
            .hint("--train-data rows.jsonl");
    std::vector<uint32_t> rows(static_cast<size_t>(count_task_rows(real_files(), config.train_data)));
    std::iota(rows.begin(), rows.end(), 0u);
    rows = chosen_indices(std::move(rows), shots, static_cast<uint64_t>(config.seed), kDrawDemonstrations);
    return read_demonstrations(real_files(), task, config.train_data, rows);
}

void print_choices(const TaskSet& set, const ChoiceResult& result, VerbOutput& out) {
    const double loss = result.loss_sum / static_cast<double>(result.target_tokens);
    const std::vector<LabelCount> labels = count_labels(set, result);
    if (!out.is_text()) {
        Json made = {{"task", set.task.name},    {"metric", "accuracy"},  {"accuracy", result.accuracy()},
                     {"rows", result.rows},      {"right", result.right}, {"loss", loss},
                     {"seconds", result.seconds}};
        for (const LabelCount& each : labels)
            made["labels"].push_back(
                {{"label", each.label}, {"rows", each.rows}, {"chosen", each.chosen}, {"right", each.right}});
        return out.result(made);
    }
    std::string text = fmt::format(
        "task      {}\naccuracy  {:.4f}\nright     {} of {}\nloss      {:.6f} of the right candidates' tokens\n",
        set.task.name, result.accuracy(), result.right, result.rows, loss);
    for (const LabelCount& each : labels)
        text += fmt::format("label     {}: right in {} of {} rows, chosen in {}\n", each.label, each.right, each.rows,
                            each.chosen);
    print_result(text + fmt::format("time      {}\n", format_seconds(result.seconds)));
}

void print_answers(const TaskSet& set, const AnswerResult& result, VerbOutput& out) {
    const std::string metric(name_of(set.task.metric));
    if (!out.is_text()) {
        const Json made = {{"task", set.task.name},           {"metric", metric},
                           {metric, result.score()},          {"rows", result.rows},
                           {"new_tokens", result.new_tokens}, {"seconds", result.seconds}};
        return out.result(made);
    }
    print_result(fmt::format("task         {}\n{:<13}{:.4f}\nrows         {}\nnew tokens   {}\ntime         {}\n",
                             set.task.name, metric, result.score(), result.rows, result.new_tokens,
                             format_seconds(result.seconds)));
}

// EleutherAI's harness has hundreds of benchmarks that are not judged here, and reads the same folders.
std::string lm_eval_command(const OpenModel& opened, const Config& config) {
    std::string folder = "pretrained=" + config.model;
    if (opened.adapter) folder += ",peft=" + config.adapter;
    return fmt::format("lm_eval run --model hf --model_args {} --tasks {} (pip install lm_eval)", shell_word(folder),
                       shell_word(config.task));
}

TaskSpec task_of(const OpenModel& opened, const Config& config) {
    try {
        return find_task(real_files(), config.task);
    } catch (UserError& error) {
        if (error.code() == ExitCode::usage && !config.task.ends_with(".json"))
            error.or_hint(lm_eval_command(opened, config));
        throw;
    }
}

}  // namespace

ExitCode report_task(OpenModel& opened, const Config& config, const EvalArgs& args, VerbOutput& out) {
    const TaskSpec task = task_of(opened, config);
    const std::vector<std::string>& paths = config.eval_data;
    const TaskOptions options{.max_length = config.max_length,
                              .add_eos = config.add_eos,
                              .skip_malformed = config.skip_malformed,
                              .demonstrations = demonstrations(task, config, args.shots)};
    const std::vector<uint32_t> chosen = choose_eval_rows(count_task_rows(real_files(), paths), config);
    const TaskSet set = read_task_set(real_files(), task, paths, chosen, options, opened.tokenizer);
    log_info("{}: {}", task.name, set.report.summary());
    if (task.has_candidates()) {
        Inference inference(real_files(), opened, config, eval_shape(config, set.all_lengths()));
        print_choices(set, evaluate_choices(inference.engine(), set.rows, task.score), out);
        return ExitCode::ok;
    }
    const int64_t capacity = answer_capacity(set, opened.model.context_length);
    Inference inference(real_files(), opened, config,
                        {.sequence_lengths = {1}, .schedules = answer_requests(capacity)});
    const int64_t vocab = std::min<int64_t>(opened.tokenizer.vocab_size(), opened.model.vocab);
    print_answers(set, evaluate_answers(inference.engine(), set, opened.tokenizer, vocab, capacity), out);
    return ExitCode::ok;
}

}  // namespace windlass
