// data.cpp: rows as a run will see them: which tokens are trained, how long rows are, what is wrong with them.
#include "data/data.h"

#include <unistd.h>

#include <algorithm>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/math.h"
#include "base/plural.h"
#include "base/printable.h"
#include "base/units.h"
#include "data/chats.h"
#include "data/open_model.h"
#include "format/model_folder.h"
#include "model/families.h"
#include "rows/row_keys.h"
#include "train/progress.h"

namespace windlass {
namespace {

constexpr EventKind kRow{.name = "row"};
constexpr int64_t kFaultsShown = 20;
constexpr int kBarColumns = 40;

// What `train` would make of the same configuration's rows.
struct Rows {
    Config config;
    Tokenizer tokenizer;
    std::optional<ChatFormat> chats;

    RowsOptions options() const {
        RowsOptions made = rows_options(config);
        if (chats) made.chats = &*chats;
        return made;
    }
};

// Reads only the tokenizer of a model folder, and the number of positions if config.json gives it.
Rows open_rows(const DataArgs& args) {
    Config config = config_from_words(args.words, ConfigUse::plan, download_of(args.download, HubFiles::configuration));
    if (config.train_data.empty())
        throw UserError(ExitCode::usage, "configuration", "train_data is not set").hint("--train-data rows.jsonl");
    if (!config.task.empty())
        throw UserError(ExitCode::usage, "task", "its rows are not shown here")
            .hint("windlass eval MODEL --task " + config.task);
    const ModelFolder folder = ModelFolder::open(
        real_files(), config.model, {.weights_may_be_absent = true, .ignored_keys = config.ignore_config_keys});
    HfConfig hf_config = folder.config();
    const ModelSpec model = build_model(hf_config, {});
    const int64_t positions = model.context_length;
    if (config.max_length > positions) {
        log_info("note: max_length is {}, the model's number of positions", positions);
        config.max_length = positions;
    }
    Tokenizer tokenizer = Tokenizer::load(real_files(), config.model);
    limit_rows(tokenizer, config.model, model.vocab);
    Rows rows{std::move(config), std::move(tokenizer), std::nullopt};
    return rows;
}

void open_chats(Rows& rows) {
    if (std::optional<ChatFormat> chats =
            open_chats_of(real_files(), rows.config, rows.tokenizer, rows.config.train_data))
        rows.chats.emplace(*std::move(chats));
}

// Pieces of a sample's text, learned and not, in turn.
std::vector<std::pair<bool, std::string>> pieces_of(const Sample& sample, const Tokenizer& tokenizer) {
    std::vector<std::pair<bool, std::string>> pieces;
    StreamDecoder decoder(tokenizer, /*skip_special=*/false);
    for (size_t i = 0; i < sample.ids.size(); ++i) {
        const bool learned = sample.trained[i] != 0;
        if (pieces.empty() || pieces.back().first != learned) pieces.emplace_back(learned, "");
        pieces.back().second += decoder.push(sample.ids[i]);
    }
    if (!pieces.empty()) pieces.back().second += decoder.finish();
    return pieces;
}

std::string shown(const Sample& sample, const Tokenizer& tokenizer, bool color) {
    std::string text;
    for (const auto& [learned, piece] : pieces_of(sample, tokenizer)) {
        const std::string safe = printable_prose(piece);
        if (!learned)
            text += safe;
        else
            text += color ? "\x1b[1;32m" + safe + "\x1b[0m" : "⟦" + safe + "⟧";
    }
    return text;
}

ExitCode show(const Rows& rows, int64_t count, VerbOutput& out) {
    const bool color = terminal_style(STDOUT_FILENO).color;
    int64_t number = 0;
    Json list = Json::array();
    const auto visit = [&](Sample&& sample) {
        if (!out.is_text()) {
            Json pieces = Json::array();
            for (const auto& [learned, text] : pieces_of(sample, rows.tokenizer))
                pieces.push_back({{"learned", learned}, {"text", text}});
            Json shown = {
                {"tokens", sample.ids.size()}, {"learned", sample.trained_count()}, {"pieces", std::move(pieces)}};
            out.tell(kRow, shown);
            list.push_back(std::move(shown));
            return ++number < count;
        }
        print_prose(fmt::format("--- sample {}: {}, {} of them trained\n", number + 1,
                                counted(std::ssize(sample.ids), "token"), sample.trained_count()));
        print_colored(shown(sample, rows.tokenizer, color) + "\n");
        return ++number < count;
    };
    RowNotes notes;
    for (const std::string& path : rows.config.train_data) {
        if (number == count) break;
        notes.add(for_each_sample(real_files(), path, rows.options(), rows.tokenizer, visit).notes);
    }
    notes.log();
    if (number == 0) throw UserError(ExitCode::data, rows.config.train_data.front(), "there is nothing to learn");
    if (!out.is_text()) out.result(out.has_events() ? Json{{"shown", number}} : Json{{"samples", std::move(list)}});
    return ExitCode::ok;
}

Json notes_json(const RowNotes& notes) {
    Json list = Json::array();
    for (const auto& [what, note] : notes.notes())
        list.push_back({{"note", what}, {"rows", note.rows}, {"first", note.first}});
    return list;
}

// The length that this percentage of the sorted lengths does not exceed.
uint32_t percentile(const std::vector<uint32_t>& sorted, int64_t percent) {
    return sorted[static_cast<size_t>((std::ssize(sorted) - 1) * percent / 100)];
}

// "   1-  64  ########  120"
std::string histogram(const std::vector<uint32_t>& sorted) {
    uint32_t width = 1;
    while (div_up(int64_t{sorted.back()}, int64_t{width}) > 16) width *= 2;
    std::vector<int64_t> counts(static_cast<size_t>(div_up(int64_t{sorted.back()}, int64_t{width})));
    for (const uint32_t length : sorted) ++counts[(length - 1) / width];
    const int64_t most = *std::ranges::max_element(counts);
    std::string text;
    for (size_t i = 0; i < counts.size(); ++i) {
        const auto bar = static_cast<size_t>(div_up(counts[i] * kBarColumns, most));
        text += fmt::format("{:>6} -{:>6}  {:<{}}  {}\n", i * width + 1, (i + 1) * width, std::string(bar, '#'),
                            kBarColumns, counts[i]);
    }
    return text;
}

ExitCode stats(const Rows& rows, VerbOutput& out) {
    std::vector<uint32_t> lengths;
    RowsReport report;
    for (const std::string& path : rows.config.train_data)
        report.add(for_each_sample(real_files(), path, rows.options(), rows.tokenizer, [&](Sample&& sample) {
            lengths.push_back(static_cast<uint32_t>(sample.ids.size()));
            return true;
        }));
    if (lengths.empty())
        throw UserError(ExitCode::data, rows.config.train_data.front(), "there is nothing to learn: {}",
                        report.summary());
    std::ranges::sort(lengths);
    if (!out.is_text()) {
        out.result({{"rows", report.rows},
                    {"samples", report.samples},
                    {"tokens", report.tokens},
                    {"learned_tokens", report.trained_tokens},
                    {"malformed", report.malformed},
                    {"dropped_long", report.dropped_long},
                    {"dropped_empty", report.dropped_empty},
                    {"truncated", report.truncated},
                    {"shortest", lengths.front()},
                    {"median", percentile(lengths, 50)},
                    {"p90", percentile(lengths, 90)},
                    {"p99", percentile(lengths, 99)},
                    {"longest", lengths.back()},
                    {"unread_keys", report.notes.unread_keys()},
                    {"notes", notes_json(report.notes)}});
        return ExitCode::ok;
    }
    print_result(fmt::format(
        "{}\ntrained   {:.1f} % of the tokens\nlengths   {} to {}, median {}, 90 % up to {}, 99 % up to {}\n\n{}",
        report.summary(), 100.0 * static_cast<double>(report.trained_tokens) / static_cast<double>(report.tokens),
        lengths.front(), lengths.back(), percentile(lengths, 50), percentile(lengths, 90), percentile(lengths, 99),
        histogram(lengths)));
    report.notes.log();
    return ExitCode::ok;
}

// Every row that cannot be read, each named.
ExitCode check(const Rows& rows, VerbOutput& out) {
    RowsReport report;
    std::vector<std::string> faults;
    RowsOptions options = rows.options();
    options.skip_malformed = true;
    options.on_malformed = [&](const UserError& error) {
        if (std::ssize(faults) < kFaultsShown) faults.emplace_back(error.what());
    };
    for (const std::string& path : rows.config.train_data)
        report.add(for_each_sample(real_files(), path, options, rows.tokenizer, [](Sample&&) { return true; }));
    const ExitCode code = report.malformed > 0 || report.samples == 0 ? ExitCode::data : ExitCode::ok;
    if (!out.is_text()) {
        out.result({{"rows", report.rows},
                    {"samples", report.samples},
                    {"malformed", report.malformed},
                    {"faults", faults},
                    {"unread_keys", report.notes.unread_keys()},
                    {"notes", notes_json(report.notes)}},
                   code);
    } else {
        std::string text;
        for (const std::string& fault : faults) text += fault + "\n";
        if (report.malformed > std::ssize(faults))
            text += fmt::format("... {} more\n", report.malformed - std::ssize(faults));
        for (const std::string& note : report.notes.lines()) text += note + "\n";
        print_result(text + report.summary() + "\n");
    }
    return code;
}

}  // namespace

ExitCode run_data(const DataArgs& args, VerbOutput& out) {
    if (args.what == DataArgs::What::keys) {
        if (out.is_text())
            print_result(row_keys_table());
        else
            out.result({{"text", row_keys_table()}});
        return ExitCode::ok;
    }
    Rows rows = open_rows(args);
    open_chats(rows);
    switch (args.what) {
        case DataArgs::What::show:
            return show(rows, args.samples, out);
        case DataArgs::What::stats:
            return stats(rows, out);
        case DataArgs::What::check:
            return check(rows, out);
        case DataArgs::What::keys:
            break;
    }
    return ExitCode::internal;
}

}  // namespace windlass
