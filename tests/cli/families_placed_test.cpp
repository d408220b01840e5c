// Models of every family, by every kind of method, wherever things live: the same losses and the same files.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

// The first eight by one method each among the usual tests: they have what no other test of placements has.
constexpr const char* kFamilies[] = {"smollm3", "olmo2", "granite", "phi3",   "phi4_mini",      "gemma2", "gemma3_text",
                                     "gemma3",  "gpt2",  "opt",     "llama3", "mistral_window", "qwen2",  "qwen3"};
constexpr int kUsual = 8;

struct ByMethod {
    const char* name;
    Settings settings;
};
const std::vector<ByMethod>& methods() {
    static const std::vector<ByMethod> all = {
        {"adamw", {}},
        {"adamw in bf16", {{"dtype", "bf16"}, {"state_format", "int8"}}},
        {"lora", {{"adapter", "lora"}, {"lora_r", "4"}}},
        {"lsp", {{"adapter", "lsp"}, {"lsp_d", "8"}, {"lsp_refresh", "1"}, {"lsp_samples", "2"}}},
        {"zeroth order", {{"method", "zeroth_order"}}},
        {"forward gradients", {{"method", "forward_gradient"}}},
        {"lomo", {{"method", "lomo"}, {"max_grad_norm", "0"}, {"weight_decay", "0"}}},
        {"adalomo", {{"method", "adalomo"}, {"max_grad_norm", "0"}, {"weight_decay", "0"}}}};
    return all;
}

// Where things live when they are not all in memory.
std::vector<Settings> placements(const Sandbox& sandbox) {
    return {{{"policy", "three_tier"}, {"ssd_dir", sandbox / "ssd"}},
            {{"policy", "host_stream"}, {"device", "cpu:emulate"}},
            {{"policy", "three_tier"}, {"ssd_dir", sandbox / "ssd"}, {"device", "cpu:emulate"}}};
}

std::string weight_bytes_in(const std::string& final) {
    const bool is_adapter = fs::exists(final + "/adapter_model.safetensors");
    return read_bytes(final + (is_adapter ? "/adapter_model.safetensors" : "/model.safetensors"));
}

void expect_same_everywhere(const std::string& family, const ByMethod& trained) {
    SCOPED_TRACE(fmt::format("{}, {}", family, trained.name));
    Sandbox sandbox;
    Settings settings = sandbox.training(family);
    settings["policy"] = "in_memory";
    for (const auto& [key, value] : trained.settings) settings[key] = value;
    must_succeed(sandbox.train(settings));
    const std::vector<Json> metrics = metrics_of(sandbox.out());
    const std::string weights = weight_bytes_in(sandbox.out() + "/final");
    settings["output_dir"] = sandbox / "elsewhere";
    settings["overwrite"] = "true";
    for (const Settings& placement : placements(sandbox)) {
        for (const auto& [key, value] : placement) settings[key] = value;
        SCOPED_TRACE(testing::PrintToString(placement));
        must_succeed(sandbox.train(settings));
        EXPECT_EQ(metrics_of(sandbox / "elsewhere"), metrics);
        EXPECT_TRUE(weight_bytes_in(sandbox / "elsewhere/final") == weights);
        for (const auto& [key, value] : placement) settings.erase(key);
    }
}

class FamiliesPlaced : public testing::TestWithParam<int> {};

std::string name_of_family(const testing::TestParamInfo<int>& info) {
    return kFamilies[info.param];
}

TEST_P(FamiliesPlaced, GiveTheSameBits) {
    expect_same_everywhere(kFamilies[GetParam()], methods()[static_cast<size_t>(GetParam())]);
}

INSTANTIATE_TEST_SUITE_P(Families, FamiliesPlaced, testing::Range(0, kUsual), name_of_family);

class SlowFamiliesPlaced : public FamiliesPlaced {};

TEST_P(SlowFamiliesPlaced, GiveTheSameBitsByEveryMethod) {
    for (const ByMethod& trained : methods()) expect_same_everywhere(kFamilies[GetParam()], trained);
}

INSTANTIATE_TEST_SUITE_P(Families, SlowFamiliesPlaced, testing::Range(0, static_cast<int>(std::size(kFamilies))),
                         name_of_family);

}  // namespace
}  // namespace windlass::cli
