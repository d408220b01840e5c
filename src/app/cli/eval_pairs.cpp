#include "app/cli/eval.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "data/chats.h"
#include "data/data.h"
#include "data/token_folder.h"
#include "infer/preference.h"
#include "session/session.h"

namespace windlass {
namespace {

// Rows to judge: samples 2i and 2i + 1 of the cache are a pair.
struct PairRows {
    TokenCache cache;
    std::vector<uint32_t> chosen;  // pairs

    int64_t rows() const { return 2 * std::ssize(chosen); }
    ReadRows reader() const {
        return [this](int64_t first, int64_t count) {
            std::vector<RowSamples> rows;
            for (int64_t row = first; row < first + count; ++row)
                rows.push_back({cache.read(2 * int64_t{chosen[static_cast<size_t>(row / 2)]} + row % 2)});
            return rows;
        };
    }
    std::vector<uint32_t> lengths() const {
        std::vector<uint32_t> lengths;
        for (const uint32_t pair : chosen)
            for (const size_t side : {0, 1}) lengths.push_back(cache.lengths()[2 * size_t{pair} + side]);
        return lengths;
    }
};

PairRows open_pairs(FileSystem& files, const OpenModel& opened, const Config& config) {
    RowsOptions options = rows_options(config);
    const std::optional<ChatFormat> chats = open_chats_of(files, config, opened.tokenizer, config.eval_data);
    if (chats) options.chats = &*chats;
    PairRows rows{.cache = open_token_cache(files, config.cache_dir, config.eval_data, options, opened.tokenizer)};
    log_rows(rows.cache, std::ssize(config.eval_data));
    rows.chosen = choose_eval_rows(rows.cache.size() / 2, config);
    return rows;
}

// What the rows are compared with: another model, or the base of an adapter without it. Nothing where there is neither.
std::optional<OpenModel> open_reference(FileSystem& files, const OpenModel& opened, const Config& config,
                                        const std::string& path) {
    if (path.empty() && !opened.adapter) return std::nullopt;
    Config of_reference = config;
    if (!path.empty()) {
        of_reference.model = path;
        of_reference.adapter.clear();
    }
    OpenModel reference = open_model(files, of_reference);
    reference.adapter.reset();  // an adapter that has learnt nothing adds nothing
    if (reference.tokenizer.vocab_size() != opened.tokenizer.vocab_size())
        throw UserError(ExitCode::model, path, "has {} ids, the model that is compared with it {}",
                        reference.tokenizer.vocab_size(), opened.tokenizer.vocab_size())
            .hint("the model that this one was trained from");
    return reference;
}

std::vector<double> losses_of(FileSystem& files, OpenModel& model, const Config& config, const PairRows& rows) {
    Inference inference(files, model, config, eval_shape(config, rows.lengths()));
    return row_losses(inference.engine(), rows.rows(), rows.reader());
}

// Without a reference there are no rewards, but likelihoods.
void print_likelihoods(const PreferenceResult& result, double beta, VerbOutput& out) {
    const double chosen = result.chosen_reward() / beta, rejected = result.rejected_reward() / beta;
    if (!out.is_text())
        return out.result({{"accuracy", result.accuracy()},
                           {"logps/chosen", chosen},
                           {"logps/rejected", rejected},
                           {"pairs", result.pairs},
                           {"seconds", result.seconds}});
    print_result(fmt::format(
        "accuracy        {:.4f} of pairs have the likelier answer chosen\nlogps/chosen    {:.4f}\nlogps/rejected  "
        "{:.4f}\npairs           {}\ntime            {}\n",
        result.accuracy(), chosen, rejected, result.pairs, format_seconds(result.seconds)));
}

void print_rewards(const PreferenceResult& result, VerbOutput& out) {
    if (!out.is_text())
        return out.result({{"loss", result.loss()},
                           {"rewards/chosen", result.chosen_reward()},
                           {"rewards/rejected", result.rejected_reward()},
                           {"rewards/margins", result.margin()},
                           {"rewards/accuracies", result.accuracy()},
                           {"pairs", result.pairs},
                           {"seconds", result.seconds}});
    print_result(
        fmt::format("loss                {:.6f}\nrewards/chosen      {:.6f}\nrewards/rejected    {:.6f}\n"
                    "rewards/margins     {:.6f}\nrewards/accuracies  {:.4f}\npairs               {}\n"
                    "time                {}\n",
                    result.loss(), result.chosen_reward(), result.rejected_reward(), result.margin(), result.accuracy(),
                    result.pairs, format_seconds(result.seconds)));
}

}  // namespace

ExitCode report_pairs(OpenModel& opened, const Config& config, const EvalArgs& args, VerbOutput& out) {
    FileSystem& files = real_files();
    const PreferenceAttrs attrs = *preference_of(config);
    const bool is_dpo = attrs.kind == PreferenceAttrs::Kind::dpo;
    const PairRows rows = open_pairs(files, opened, config);
    std::vector<double> references;
    if (std::optional<OpenModel> reference =
            is_dpo ? open_reference(files, opened, config, args.reference) : std::optional<OpenModel>();
        reference)
        references = losses_of(files, *reference, config, rows);
    Inference inference(files, opened, config, eval_shape(config, rows.lengths()));
    const PreferenceResult result = evaluate_pairs(inference.engine(), attrs, rows.rows(), rows.reader(), references);
    if (is_dpo && references.empty())
        print_likelihoods(result, attrs.beta, out);
    else
        print_rewards(result, out);
    return ExitCode::ok;
}

}  // namespace windlass
