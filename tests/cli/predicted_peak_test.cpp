// The memory that a run without backpropagation, or of an adapter, takes, beside what its plan says: measured on the
// real program under an enforced budget, with a model so large that what the process itself takes is little beside it.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/units.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

// 305 million parameters in bf16: 580 MiB. The plan allows the process 40 MiB and 4 more for each thread, of which runs
// use about a half.
const std::string& large_model() {
    static const TempFolder place;
    static const std::string folder = place / "large";
    if (!std::filesystem::exists(folder))
        must_succeed({.words = {binary_dir() + "/make_model", "--shape", "llama-tiny", "--hidden", "1024", "--layers",
                                "26", "--ffn", "2816", "--dtype", "bf16", "--seed", "1", "--out", folder}});
    return folder;
}

void expect_peak(const Settings& changes) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["model"] = large_model();
    settings["update_time"] = "auto";
    for (const auto& [key, value] : changes) settings[key] = value;
    if (settings["policy"] == "three_tier") settings["ssd_dir"] = sandbox / "ssd";
    std::vector<std::string> words = words_of(settings);
    words.insert(words.begin(), {"plan", "--json"});
    const int64_t planned = json_of(sandbox.windlass(words)).at("memory_bytes");
    ASSERT_GT(planned, 600 * kMiB);
    settings["ram"] = std::to_string(planned + kMiB);  // the process varies by this much from one start to the next
    const Json trained = json_of(sandbox.train(settings, {"--json"}));
    const double ratio = trained.at("peak_bytes").get<double>() / static_cast<double>(planned);
    EXPECT_GE(ratio, 0.95);
    EXPECT_LE(ratio, 1.02);
    std::cout << fmt::format("{}: planned {}, measured {:+.1f} %\n", settings["policy"], format_bytes(planned),
                             100 * (ratio - 1));
}

class ForwardOnlyPeak : public testing::TestWithParam<const char*> {};

TEST_P(ForwardOnlyPeak, IsThatOfThePlan) {
    expect_peak({{"method", "zeroth_order"}, {"policy", GetParam()}});
}

TEST(AdapterPeak, IsThatOfThePlan) {
    expect_peak({{"adapter", "lora"}, {"policy", "in_memory"}});
}

INSTANTIATE_TEST_SUITE_P(Policies, ForwardOnlyPeak, testing::Values("in_memory", "three_tier"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass::cli
