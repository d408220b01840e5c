// The memory that a run without backpropagation, of an adapter, of small states, or of pairs of answers takes, beside
// what its plan says: measured on the real program under an enforced budget, with a model so large that what the
// process itself takes is little beside it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/units.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

std::string made(const TempFolder& place, const char* hidden, const char* layers, const char* ffn) {
    std::string folder = place / "model";
    must_succeed({.words = {binary_dir() + "/make_model", "--shape", "llama-tiny", "--hidden", hidden, "--layers",
                            layers, "--ffn", ffn, "--dtype", "bf16", "--seed", "1", "--out", folder}});
    return folder;
}

// 305 million parameters in bf16: 580 MiB. The plan allows the process 40 MiB and 4 more for each thread, of which runs
// use about a half.
const std::string& large_model() {
    static const TempFolder place;
    static const std::string folder = made(place, "1024", "26", "2816");
    return folder;
}

// 20 million, and 90 million, of which only an adapter is trained: two runs of them are compared with each other. A
// process varies by some 3 MiB from one start to the next, which must be less than 2 % of what they take.
const std::string& small_model() {
    static const TempFolder place;
    static const std::string folder = made(place, "512", "7", "1408");
    return folder;
}
const std::string& frozen_model() {
    static const TempFolder place;
    static const std::string folder = made(place, "1024", "7", "2816");
    return folder;
}

struct Peak {
    int64_t planned = 0, measured = 0;
};

Peak peak_of(Sandbox& sandbox, const Settings& changes) {
    Settings settings = sandbox.training();
    settings["model"] = large_model();
    settings["update_time"] = "auto";
    for (const auto& [key, value] : changes) settings[key] = value;
    if (settings["policy"] == "three_tier") settings["ssd_dir"] = sandbox / "ssd";
    std::vector<std::string> words = words_of(settings);
    words.insert(words.begin(), {"plan", "--json", "--alone"});
    const int64_t planned = json_of(sandbox.windlass(words)).at("memory_bytes");
    settings["ram"] = std::to_string(planned + kMiB);  // the process varies by this much from one start to the next
    const Json trained = json_of(sandbox.train(settings, {"--json"}));
    const Peak peak{planned, trained.at("peak_bytes")};
    std::cout << fmt::format("{}: planned {}, measured {}, {:+.1f} %\n", settings["policy"], format_bytes(planned),
                             format_bytes(peak.measured),
                             100 * (static_cast<double>(peak.measured) / static_cast<double>(planned) - 1));
    return peak;
}

void expect_peak(const Settings& changes) {
    Sandbox sandbox;
    const Peak peak = peak_of(sandbox, changes);
    EXPECT_GT(peak.planned, 600 * kMiB);
    const double ratio = static_cast<double>(peak.measured) / static_cast<double>(peak.planned);
    EXPECT_GE(ratio, 0.95);
    EXPECT_LE(ratio, 1.02);
}

class ForwardOnlyPeak : public testing::TestWithParam<const char*> {};

TEST_P(ForwardOnlyPeak, IsThatOfThePlan) {
    expect_peak({{"method", "zeroth_order"}, {"policy", GetParam()}});
}

TEST(AdapterPeak, IsThatOfThePlan) {
    expect_peak({{"adapter", "lora"}, {"policy", "in_memory"}});
}

TEST(LomoPeak, IsThatOfThePlan) {
    expect_peak({{"method", "lomo"}, {"policy", "in_memory"}, {"max_grad_norm", "0"}, {"weight_decay", "0"}});
}

// Each of both steps has a refresh before it; of the largest matrices, and without learning, which takes minutes.
TEST(SlowLspPeak, IsThatOfThePlanWhereProjectorsAreRefreshed) {
    expect_peak({{"adapter", "lsp"},
                 {"lsp_d", "128"},
                 {"lora_target_modules", "[down_proj]"},
                 {"lsp_refresh", "1"},
                 {"lsp_samples", "2"},
                 {"lsp_learn", "0"},
                 {"policy", "in_memory"}});
}

// What the end of a run takes (final/, checkpoints, the picture) is within what its steps took: the peak that a run
// reports, up to its end, compared with that of its last step. A process varies by less than this.
constexpr int64_t kEndBytesMax = 4 * kMiB;

class EndPeak : public testing::TestWithParam<std::pair<const char*, Settings>> {};

TEST_P(EndPeak, IsThatOfTheSteps) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    for (const auto& [key, value] : GetParam().second) settings[key] = value;
    if (settings["policy"] == "three_tier") settings["ssd_dir"] = sandbox / "ssd";
    if (settings.contains("eval_steps")) settings["eval_data"] = sandbox.token_rows();
    Process process(sandbox.train(settings, {"--json"}));
    int64_t seen = 0;  // sampled from outside, up to the end
    while (process.is_running()) {
        std::ifstream status(fmt::format("/proc/{}/status", process.id()));
        bool has_begun = false;  // before it executes the program, a child has the memory of this test
        for (std::string line; std::getline(status, line);) {
            if (line == "Name:\twindlass") has_begun = true;
            if (has_begun && line.starts_with("RssAnon:"))
                seen = std::max(seen, int64_t{std::stoll(line.substr(8))} * 1024);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Finished finished = process.wait();
    ASSERT_EQ(finished.code, 0) << describe(finished);
    const Json trained = parse_json(finished.out, "stdout", ExitCode::internal);
    const std::string lines = read_bytes(sandbox.out() + "/metrics.jsonl");
    const Json last = parse_json(lines.substr(lines.rfind('\n', lines.size() - 2) + 1), "metrics", ExitCode::internal);
    const int64_t peak = trained.at("peak_bytes"), of_steps = last.at("ram_bytes");
    std::cout << fmt::format("steps {}, to the end {}, seen from outside {}, planned {}\n", format_bytes(of_steps),
                             format_bytes(peak), format_bytes(seen),
                             format_bytes(trained.at("predicted_bytes").get<int64_t>()));
    // Pages of the program's file that came after the peak are taken from it, too.
    EXPECT_GE(peak + 2 * kMiB, seen);
    EXPECT_LE(peak - of_steps, kEndBytesMax);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EndPeak,
                         testing::Values(std::pair("full", Settings{{"policy", "in_memory"}}),
                                         std::pair("on_disk", Settings{{"policy", "three_tier"}}),
                                         std::pair("adapter", Settings{{"adapter", "lora"}, {"policy", "in_memory"}}),
                                         std::pair("best", Settings{{"policy", "in_memory"},
                                                                    {"eval_steps", "1"},
                                                                    {"learning_rate", "1"},
                                                                    {"load_best_model_at_end", "true"}}),
                                         std::pair("forward_only",
                                                   Settings{{"method", "zeroth_order"}, {"policy", "in_memory"}})),
                         [](const auto& info) { return std::string(info.param.first); });

// Comparing answers with a reference takes the memory of the same rows without preferences, and 2 % at most.
// One heap for all threads: how many there are, and what they hold, depends on what else the machine does.
class PreferencePeak : public testing::TestWithParam<std::pair<const char*, const char*>> {
  protected:
    PreferencePeak() { setenv("MALLOC_ARENA_MAX", "1", 1); }
    ~PreferencePeak() override { unsetenv("MALLOC_ARENA_MAX"); }
};

TEST_P(PreferencePeak, IsThatOfTheSameRows) {
    Sandbox sandbox;
    const std::string text(40, 'a');  // a token a character
    std::vector<std::string> pairs, rows;
    for (int i = 0; i < 3; ++i) {
        const std::string chosen = fmt::format("b{}{}", i, text), rejected = fmt::format("c{}{}", i, text);
        pairs.push_back(fmt::format(R"({{"prompt": "{}", "chosen": "{}", "rejected": "{}"}})", text, chosen, rejected));
        for (const std::string& answer : {chosen, rejected})
            rows.push_back(fmt::format(R"({{"prompt": "{}", "completion": "{}"}})", text, answer));
    }
    const auto [adapter, policy] = GetParam();
    Settings plain = {{"model", *adapter != '\0' ? frozen_model() : small_model()},
                      {"adapter", adapter},
                      {"policy", policy},
                      {"train_data", sandbox.rows("answers.jsonl", rows)},
                      {"max_length", "128"},
                      {"gradient_checkpointing", "true"},  // of either, whatever the planner thinks of their speed
                      {"update_time", "after_backward"},
                      {"per_device_train_batch_size", "2"},
                      {"gradient_accumulation_steps", "1"}};
    if (plain["adapter"].empty()) plain.erase("adapter");
    const Peak of_rows = peak_of(sandbox, plain);
    Settings compared = plain;
    compared["objective"] = "dpo";
    compared["train_data"] = sandbox.rows("pairs.jsonl", pairs);
    compared["per_device_train_batch_size"] = "1";
    compared["output_dir"] = sandbox / "pairs";
    const Peak of_pairs = peak_of(sandbox, compared);
    EXPECT_LE(static_cast<double>(of_pairs.planned), 1.02 * static_cast<double>(of_rows.planned));
    EXPECT_LE(static_cast<double>(of_pairs.measured), 1.02 * static_cast<double>(of_rows.measured));
}

INSTANTIATE_TEST_SUITE_P(Placements, PreferencePeak,
                         testing::Values(std::pair("lora", "in_memory"), std::pair("lora", "three_tier"),
                                         std::pair("", "in_memory"), std::pair("", "three_tier")),
                         [](const auto& info) {
                             return fmt::format("{}_{}", *info.param.first ? info.param.first : "all",
                                                info.param.second);
                         });

INSTANTIATE_TEST_SUITE_P(Policies, ForwardOnlyPeak, testing::Values("in_memory", "three_tier"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass::cli
