// What `windlass plan` predicts beside what `windlass train` does: predict_bench [--list] [ROW...]
//
// Each row is a run of the real program: a policy, a format of the state, a size, on a model of 35 or 171 million
// random parameters. The machine is measured afresh before and after. Where the two looks predict steps over 10 % apart
// the row is taken again, three times at most, and then counts as it is. Seconds are means of all steps but the first,
// with the least and the most; the peak is that of private memory, under a budget that the system enforces. Prints a
// line for each row, and how many are within 10 % in time and within -5 and +2 % in peak memory; fails where fewer than
// 90 % are. Half an hour on two cores on which nothing else computes; writes up to 8 GB beside the program.
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/units.h"
#include "machine_line.h"
#include "measure.h"

namespace windlass {
namespace {

constexpr double kDriftMax = 0.10;  // for a row to be taken as it is
constexpr int kTriesMost = 3;
constexpr double kTimeWithin = 0.10;  // relative
constexpr double kPeakBelow = 0.05, kPeakAbove = 0.02;
constexpr double kShareWanted = 0.90;
constexpr int kSteps = 6;

struct Row {
    std::string_view name;
    std::string_view model;     // small | large | huge
    std::string_view settings;  // of windlass
};

// clang-format off
constexpr Row kRows[] = {
    {"in memory, fp32",                    "small", "policy=in_memory state_format=fp32"},
    {"in memory, int8, 4 accumulated",     "small", "policy=in_memory state_format=int8 gradient_accumulation_steps=4"},
    {"in memory, bf16, recomputing",       "small", "policy=in_memory state_format=bf16 gradient_checkpointing=true"},
    {"in memory, fp32, f32",               "small", "policy=in_memory state_format=fp32 dtype=f32"},
    {"in memory, fp32, large",             "large", "policy=in_memory state_format=fp32 max_length=256"},
    {"in memory, zeroth_order",          "large", "policy=in_memory method=zeroth_order"},
    {"in memory, forward_gradient",      "large", "policy=in_memory method=forward_gradient directions=2 max_length=256"},
    {"three tiers, fp32",                  "small", "policy=three_tier state_format=fp32 ram=700MiB"},
    {"three tiers, bf16",                  "small", "policy=three_tier state_format=bf16 ram=700MiB"},
    {"three tiers, int8, 8 accumulated",   "small", "policy=three_tier state_format=int8 ram=700MiB gradient_accumulation_steps=8"},
    {"three tiers, fp32, short rows",      "small", "policy=three_tier state_format=fp32 ram=700MiB max_length=32"},
    {"three tiers, fp32, large",           "large", "policy=three_tier state_format=fp32 ram=900MiB gradient_checkpointing=true"},
    {"three tiers, int8, large",           "large", "policy=three_tier state_format=int8 ram=900MiB"},
    {"three tiers, zeroth_order, huge",  "huge",  "policy=three_tier method=zeroth_order ram=750MiB max_length=256"},
    {"own memory, host_stream, fp32",      "small", "policy=host_stream state_format=fp32 device=cpu:emulate device_memory=200MiB link_rate=2GB"},
    {"own memory, host_stream, int8",      "small", "policy=host_stream state_format=int8 device=cpu:emulate device_memory=200MiB link_rate=2GB"},
    {"own memory, three tiers, fp32",      "small", "policy=three_tier state_format=fp32 device=cpu:emulate device_memory=200MiB ram=700MiB link_rate=2GB"},
    {"own memory, zeroth_order",         "large", "policy=host_stream method=zeroth_order device=cpu:emulate device_memory=120MiB link_rate=500MB"},
};
// clang-format on

struct Look {
    double seconds = 0;  // of a step
    int64_t bytes = 0;   // of the process at its peak
};

struct Taken {
    Look before;
    double after = 0;
    double mean = 0, least = 0, most = 0;
    double predicted = 0;  // of the steps that were measured
    int64_t peak = 0;
    int tries = 0;

    double drift() const { return 1 - std::min(before.seconds, after) / std::max(before.seconds, after); }
    double time_ratio() const { return predicted / mean; }
    double peak_ratio() const { return static_cast<double>(peak) / static_cast<double>(before.bytes); }
    bool time_holds() const { return std::abs(time_ratio() - 1) <= kTimeWithin; }
    bool peak_holds() const { return peak_ratio() >= 1 - kPeakBelow && peak_ratio() <= 1 + kPeakAbove; }
};

class Bench {
  public:
    explicit Bench(std::string programs) : programs_(std::move(programs)), work_(programs_ + "/predict-bench") {
        real_files().remove_tree(work_);
        real_files().make_folders(work_);
        make_text();
    }
    ~Bench() { real_files().remove_tree(work_); }

    Taken take(const Row& row) {
        make_model(std::string(row.model));
        Taken taken;
        do {
            const int tries = taken.tries + 1;
            taken = run_once(row);
            taken.tries = tries;
        } while (taken.drift() > kDriftMax && taken.tries < kTriesMost);
        return taken;
    }

  private:
    std::string call(const std::string& words, const std::string& out) const {
        const std::string file = work_ + "/" + out,
                          quoted = fmt::format("XDG_CACHE_HOME='{}/cache' '{}'/", work_, programs_);
        if (std::system(fmt::format("{}{} >'{}' 2>'{}.err'", quoted, words, file, file).c_str()) != 0)
            throw UserError(ExitCode::internal, words, "failed: {}", read_text(real_files(), file + ".err", kMiB));
        return read_text(real_files(), file, kMiB);
    }

    // Made when the first row wants it.
    void make_model(const std::string& name) const {
        const std::string folder = work_ + "/" + name;
        if (real_files().exists(folder)) return;
        const std::string_view shape = name == "small"   ? "--hidden 768 --layers 12 --heads 12 --ffn 2048"
                                       : name == "large" ? "--hidden 1024 --layers 12 --heads 16 --ffn 3072"
                                                         : "--hidden 1536 --layers 20 --heads 24 --ffn 4096";
        call(fmt::format("make_model --family llama --dtype bf16 --vocab 4096 --positions 2048 {} --out '{}'", shape,
                         folder),
             "made");
    }

    // Words of random letters: bytes are tokens, so rows are full.
    void make_text() const {
        Random random(11, RandomStream::test);
        std::string text;
        for (int i = 0; i < 1'000'000; ++i) text += i % 7 == 6 ? ' ' : static_cast<char>('a' + random.below(26));
        write_text_atomic(real_files(), work_ + "/text.txt", text);
    }

    std::string words(const Row& row) const {
        std::string common =
            "per_device_train_batch_size=2 learning_rate=1e-6 max_grad_norm=1e9 save_steps=null "
            "truncation=split overwrite=true";
        if (row.settings.find("max_length") == row.settings.npos) common += " max_length=512";
        if (row.settings.find("three_tier") != row.settings.npos) common += fmt::format(" ssd_dir='{}/ssd'", work_);
        return fmt::format("model='{0}/{1}' train_data='{0}/text.txt' output_dir='{0}/out' max_steps={2} {3} {4}",
                           work_, row.model, kSteps, common, row.settings);
    }

    // As the machine is now: what is known of it is forgotten.
    Look look(const Row& row) const {
        real_files().remove_tree(work_ + "/cache");
        const Json plan = parse_json(call("windlass plan --json " + words(row), "plan"), "plan", ExitCode::internal);
        return {plan.at("step").at("seconds"),
                plan.at("memory_bytes").get<int64_t>() + plan.at("device_bytes").get<int64_t>()};
    }

    Taken run_once(const Row& row) const {
        real_files().remove_tree(work_ + "/out");
        real_files().remove_tree(work_ + "/ssd");
        Taken taken{.before = look(row)};
        const Json result =
            parse_json(call("windlass train --json " + words(row), "train"), "train", ExitCode::internal);
        taken.peak = result.at("peak_bytes");
        taken.after = look(row).seconds;
        std::vector<double> seconds, predicted;
        const std::string metrics = read_text(real_files(), work_ + "/out/metrics.jsonl", kMiB);
        for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != metrics.npos; begin = end + 1) {
            const Json line = parse_json(metrics.substr(begin, end - begin), "metrics.jsonl", ExitCode::internal);
            if (!line.contains("step_seconds") || line.at("step") == 1) continue;
            seconds.push_back(line.at("step_seconds"));
            predicted.push_back(line.at("predicted_seconds"));
        }
        WINDLASS_CHECK(std::ssize(seconds) == kSteps - 1, "{} steps were measured", seconds.size());
        const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
        taken.least = *least, taken.most = *most;
        taken.mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / (kSteps - 1);
        taken.predicted = std::accumulate(predicted.begin(), predicted.end(), 0.0) / (kSteps - 1);
        return taken;
    }

    std::string programs_, work_;
};

void print_head() {
    fmt::print("{}\n", machine_line());
    fmt::print("{:<33}{:>9}{:>9}{:>16}{:>7}{:>7}{:>6}{:>12}{:>12}{:>8}\n", "run", "plan s", "mean s", "least to most",
               "ratio", "drift", "tries", "plan", "peak", "");
}

void print_row(const Row& row, const Taken& taken) {
    fmt::print("{:<33}{:>9.2f}{:>9.2f}{:>16}{:>7.2f}{:>6.0f}%{:>6}{:>12}{:>12}{:>+7.1f}%{}{}\n", row.name,
               taken.predicted, taken.mean, fmt::format("{:.2f} to {:.2f}", taken.least, taken.most),
               taken.time_ratio(), 100 * taken.drift(), taken.tries, format_bytes(taken.before.bytes),
               format_bytes(taken.peak), 100 * (taken.peak_ratio() - 1), taken.time_holds() ? "" : "  TIME",
               taken.peak_holds() ? "" : "  PEAK");
    std::fflush(stdout);
}

int run(std::vector<std::string> wanted, const std::string& program) {
    if (!wanted.empty() && wanted[0] == "--list") {
        for (const Row& row : kRows) fmt::print("{}\n    {}, {}\n", row.name, row.model, row.settings);
        return 0;
    }
    Bench bench(std::filesystem::absolute(program).parent_path());
    print_head();
    int rows = 0, times = 0, peaks = 0;
    for (const Row& row : kRows) {
        if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row.name) == wanted.end()) continue;
        const Taken taken = bench.take(row);
        print_row(row, taken);
        ++rows, times += taken.time_holds(), peaks += taken.peak_holds();
    }
    fmt::print("within 10 % in time: {} of {}; within -5 and +2 % in peak memory: {} of {}\n", times, rows, peaks,
               rows);
    const double enough = kShareWanted * rows;
    return rows > 0 && times >= enough && peaks >= enough ? 0 : 1;
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    try {
        return windlass::run({argv + 1, argv + argc}, argv[0]);
    } catch (const windlass::Error& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return static_cast<int>(error.code());
    }
}
