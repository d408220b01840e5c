#include "infer/evaluate.h"

#include "app/cli/eval.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/units.h"
#include "config/choices.h"
#include "data/chats.h"
#include "data/data.h"
#include "data/token_folder.h"
#include "rows/data_files.h"
#include "rows/row_reader.h"

namespace windlass {
namespace {

constexpr int64_t kBatchRows = 8;
constexpr int64_t kRowsMax = 10'000'000;  // of a choice task: they are held in memory

std::vector<std::string> split_choices(const std::string& text) {
    std::vector<std::string> choices;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find('|', begin), text.size());
        choices.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    for (const std::string& choice : choices) {
        if (choice.empty()) throw UserError(ExitCode::usage, "choices", "\"{}\" holds an empty candidate", text);
    }
    if (choices.size() < 2)
        throw UserError(ExitCode::usage, "choices", "expected at least two candidates, as in \" yes| no\"");
    return choices;
}

std::string trimmed(const std::string& text) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

int64_t right_choice(const std::vector<std::string>& choices, const std::string& completion, const std::string& where) {
    for (size_t i = 0; i < choices.size(); ++i) {
        if (trimmed(choices[i]) == trimmed(completion)) return static_cast<int64_t>(i);
    }
    throw UserError(ExitCode::data, where, "the completion \"{}\" is not one of the choices", completion)
        .hint("--choices with all completions of the file");
}

ChoiceRow choice_row(const RawRow& raw, const std::string& where, const Config& config,
                     const std::vector<std::string>& choices, const Tokenizer& tokenizer) {
    RowNotes notes;  // nothing is trained
    const Row row = read_row(raw.text_or_refusal(where), rows_options(config).fields, std::nullopt, where, notes);
    if (row.format != RowFormat::completion && row.format != RowFormat::alpaca)
        throw UserError(ExitCode::data, where, "the row is {}; choices need rows of prompt and completion",
                        name_of(row.format));
    ChoiceRow made{.right = right_choice(choices, row.text, where)};
    for (const std::string& choice : choices)
        made.candidates.push_back(completion_sample(tokenizer, row.prompt, choice, config.max_length, where));
    return made;
}

// Returns how many rows were skipped.
int64_t read_choice_file(const std::string& path, const Config& config, const std::vector<std::string>& choices,
                         const Tokenizer& tokenizer, std::vector<ChoiceRow>& rows) {
    RowReader reader(real_files(), path, "");
    if (reader.is_text())
        throw UserError(ExitCode::data, path, "plain text has no rows, and choices need rows of prompt and completion")
            .hint("a .jsonl, .json, .csv or .tsv file of them, or without --choices: the loss of the text");
    int64_t skipped = 0;
    while (const std::optional<RawRow> raw = reader.next()) {
        const std::string where = fmt::format("{}:{}", path, raw->line);
        try {
            rows.push_back(choice_row(*raw, where, config, choices, tokenizer));
        } catch (UserError& error) {
            if (error.code() != ExitCode::data) throw;
            if (!config.skip_malformed) {
                offer_to_skip(error);
                throw;
            }
            if (skipped++ == 0) log_warning("skipped a malformed row: {}", error.what());
        }
        if (std::ssize(rows) > kRowsMax) throw UserError(ExitCode::data, where, "more than {} rows", kRowsMax);
    }
    return skipped;
}

std::vector<ChoiceRow> read_choice_rows(const Config& config, const std::vector<std::string>& choices,
                                        const Tokenizer& tokenizer) {
    std::vector<ChoiceRow> rows;
    int64_t skipped = 0;
    for (const std::string& path : config.eval_data)
        skipped += read_choice_file(path, config, choices, tokenizer, rows);
    if (rows.empty() && skipped > 0)
        throw UserError(ExitCode::data, config.eval_data.front(), "all {} rows are malformed", skipped);
    if (rows.empty()) throw UserError(ExitCode::data, config.eval_data.front(), "holds no rows");
    if (skipped > 0) log_info("{}; {} skipped", counted(std::ssize(rows), "row"), counted(skipped, "malformed row"));
    std::vector<ChoiceRow> chosen;
    for (const uint32_t index : choose_eval_rows(std::ssize(rows), config)) chosen.push_back(std::move(rows[index]));
    return chosen;
}

}  // namespace

void log_rows(const TokenCache& rows, int64_t files) {
    // One file that was just read has been spoken of.
    if (!rows.was_built() || files > 1) log_info("{}", rows.report().summary());
}

InferenceShape eval_shape(const Config& config, const std::vector<uint32_t>& lengths) {
    const int64_t rows = config.per_device_train_batch_size.value_or(kBatchRows);
    InferenceShape shape{.micro_batch_size = rows,
                         .sequence_lengths = choose_row_lengths(lengths, rows, config.max_length)};
    for (const int64_t length : shape.sequence_lengths)
        shape.schedules.push_back({.kind = ScheduleRequest::Kind::eval, .rows = rows, .sequence_length = length});
    return shape;
}

namespace {

ExitCode report_loss(OpenModel& opened, const Config& config, VerbOutput& out) {
    FileSystem& files = real_files();
    RowsOptions options = rows_options(config);
    if (!truncation_of(config)) options.truncation = Truncation::right;  // every row counts
    const std::optional<ChatFormat> chats = open_chats_of(files, config, opened.tokenizer, config.eval_data);
    if (chats) options.chats = &*chats;
    const TokenCache rows = open_token_cache(files, config.cache_dir, config.eval_data, options, opened.tokenizer);
    log_rows(rows, std::ssize(config.eval_data));
    const std::vector<uint32_t> lengths(rows.lengths().begin(), rows.lengths().end());
    Inference inference(files, opened, config, eval_shape(config, lengths));
    const std::vector<uint32_t> chosen = choose_eval_rows(rows.size(), config);
    const EvalResult result = evaluate_rows(inference.engine(), std::ssize(chosen), [&](int64_t first, int64_t count) {
        std::vector<RowSamples> samples;
        for (int64_t i = first; i < first + count; ++i) samples.push_back({rows.read(chosen[static_cast<size_t>(i)])});
        return samples;
    });
    if (!out.is_text()) {
        out.result({{"loss", result.loss()},
                    {"perplexity", result.perplexity()},
                    {"rows", result.rows},
                    {"target_tokens", result.target_tokens},
                    {"seconds", result.seconds}});
    } else {
        print_result(fmt::format(
            "loss        {:.6f}\nperplexity  {:.4f}\nrows        {}\ntokens      {}\ntime        {}\n", result.loss(),
            result.perplexity(), result.rows, result.target_tokens, format_seconds(result.seconds)));
    }
    return ExitCode::ok;
}

ExitCode report_accuracy(OpenModel& opened, const Config& config, const std::string& choices, VerbOutput& out) {
    const std::vector<ChoiceRow> rows = read_choice_rows(config, split_choices(choices), opened.tokenizer);
    std::vector<uint32_t> lengths;
    for (const ChoiceRow& row : rows) {
        for (const Sample& candidate : row.candidates) lengths.push_back(static_cast<uint32_t>(candidate.ids.size()));
    }
    Inference inference(real_files(), opened, config, eval_shape(config, lengths));
    const ChoiceResult result = evaluate_choices(inference.engine(), rows);
    if (!out.is_text()) {
        out.result({{"accuracy", result.accuracy()},
                    {"rows", result.rows},
                    {"right", result.right},
                    {"seconds", result.seconds}});
    } else {
        print_result(fmt::format("accuracy  {:.4f}\nright     {} of {}\ntime      {}\n", result.accuracy(),
                                 result.right, result.rows, format_seconds(result.seconds)));
    }
    return ExitCode::ok;
}

}  // namespace

ExitCode run_eval(const EvalArgs& args, VerbOutput& out) {
    std::vector<std::string> words = name_model(args.words);
    for (const std::string& path : args.data) words.push_back("--eval-data=" + path);
    // A shell expands a glob after --data into several words.
    while (!args.data.empty() && words.size() > 1 && !words[1].starts_with('-') && has_rows_ending(words[1])) {
        words.push_back("--eval-data=" + words[1]);
        words.erase(words.begin() + 1);
    }
    Config config = config_from_words(words, ConfigUse::evaluate, download_of(args.download, HubFiles::weights));
    OpenModel opened = open_model(real_files(), config);
    if (!config.was_given("max_length") || config.max_length > opened.model.context_length)
        config.max_length = std::min(config.was_given("max_length") ? config.max_length : int64_t{1} << 20,
                                     opened.model.context_length);
    if (!config.task.empty()) {
        if (!args.choices.empty()) throw UserError(ExitCode::usage, "choices", "the task {} has its own", config.task);
        return report_task(opened, config, args, out);
    }
    if (!args.reference.empty() && objective_of(config) != Objective::dpo)
        throw UserError(ExitCode::usage, "reference", "only objective dpo compares with a model")
            .hint("--objective dpo");
    if (compares_pairs(objective_of(config))) return report_pairs(opened, config, args, out);
    if (args.shots > 0) throw UserError(ExitCode::usage, "shots", "only a task has demonstrations").hint("--task");
    return args.choices.empty() ? report_loss(opened, config, out) : report_accuracy(opened, config, args.choices, out);
}

}  // namespace windlass
