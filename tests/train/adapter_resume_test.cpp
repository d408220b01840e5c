// Runs of adapters that stop and go on: the same file as of a run that nobody stopped, and checkpoints of megabytes.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct AdapterKindOfRun {
    const char* name;
    Settings settings;
};
void PrintTo(const AdapterKindOfRun& kind, std::ostream* out) {
    *out << kind.name;
}

class AdapterResume : public TrainTest, public testing::WithParamInterface<AdapterKindOfRun> {
  protected:
    static bool ends_as_model() { return std::string_view(GetParam().name).starts_with("lsp"); }
    static bool is_refreshed() { return GetParam().name == std::string_view("lsp_refreshed"); }
    static const char* weights() { return ends_as_model() ? kWeights : kAdapterWeights; }
    Settings with(Settings changes) const {
        changes.merge(Settings(GetParam().settings));
        return changes;
    }
    void expect_same(const std::string& run, const std::string& known) const {
        EXPECT_EQ(history(run), history(known));
        EXPECT_GT(bytes(known + weights()).size(), 0u);
        EXPECT_TRUE(bytes(run + weights()) == bytes(known + weights()));
    }
};

// 2 N steps are N, another policy, and N more.
TEST_P(AdapterResume, EndsWithTheSameFileUnderEveryPolicy) {
    run("whole", with({}));
    run("parts", with({{"max_steps", "5"}, {"save_steps", "5"}}));
    run("parts", with({{"max_steps", "8"}, {"save_steps", "8"}, {"resume", "auto"}, {"policy", "three_tier"}}));
    run("parts", with({{"resume", "auto"}, {"policy", "host_stream"}, {"device", "cpu:emulate"}}));
    expect_same("parts", "whole");
}

TEST_P(AdapterResume, AfterSigkillWithStateOnDisk) {
    const Settings disk = with({{"max_steps", "40"}, {"policy", "three_tier"}});
    run("whole", with({{"max_steps", "40"}}));
    const int code = run_apart("killed", disk, [](int pid, int64_t lines) {
        if (lines >= 7) kill(pid, SIGKILL);
    });
    ASSERT_EQ(code, 128 + SIGKILL);
    Settings again = disk;
    again["resume"] = "auto";
    run("killed", again);
    expect_same("killed", "whole");
}

TEST_P(AdapterResume, KeepsTheAdapterAndNoModelInACheckpoint) {
    run("run", with({{"max_steps", "4"}, {"save_steps", "4"}}));
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(at("run/checkpoint-4"))) names.push_back(entry.path().filename());
    if (is_refreshed()) {
        EXPECT_THAT(names, testing::IsSupersetOf({std::string("model"), std::string("state.wls")}));
        EXPECT_THAT(names, testing::Not(testing::Contains("adapter")));
        EXPECT_EQ(bytes("run/checkpoint-4/model/model.safetensors"), bytes(std::string("run") + kWeights));
        return;
    }
    EXPECT_THAT(names, testing::IsSupersetOf({std::string("adapter"), std::string("state.wls")}));
    EXPECT_THAT(names, testing::Not(testing::Contains("model")));
    EXPECT_TRUE(fs::exists(at("run/checkpoint-4/adapter/adapter_config.json")));
    if (ends_as_model()) return;
    EXPECT_EQ(bytes("run/checkpoint-4/adapter/adapter_model.safetensors"), bytes(std::string("run") + kAdapterWeights));
    for (const auto& entry : fs::recursive_directory_iterator(at("run")))
        EXPECT_NE(entry.path().filename(), "model.safetensors") << entry.path();
}

const AdapterKindOfRun kKindsOfRun[] = {
    {"lora", {{"adapter", "lora"}, {"lora_r", "4"}}},
    {"qlora", {{"adapter", "qlora"}, {"lora_r", "4"}}},
    {"dora_in_4_bits", {{"adapter", "qlora"}, {"lora_r", "4"}, {"use_dora", "true"}}},
    {"ia3", {{"adapter", "ia3"}}},
    {"lsp", {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "0"}}},
    {"lsp_refreshed", {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "3"}, {"lsp_samples", "6"}}}};
INSTANTIATE_TEST_SUITE_P(Kinds, AdapterResume, testing::ValuesIn(kKindsOfRun),
                         [](const auto& info) { return std::string(info.param.name); });

// A refresh counts when its report is written: else the report of one that a kill follows would be missing for ever.
TEST_F(TrainTest, ARefreshWithoutAReportIsDoneAgain) {
    const Settings settings = {{"adapter", "lsp"},   {"lsp_d", "16"},          {"lsp_refresh", "3"},
                               {"lsp_samples", "4"}, {"policy", "three_tier"}, {"max_steps", "8"}};
    run("whole", settings);
    Settings begin = settings, on = settings;
    begin["max_steps"] = "2";
    on["resume"] = "auto";
    run("run", begin);
    fs::create_directories(at("run/refresh-4.json.tmp/in the way"));
    EXPECT_NE(run_apart("run", on, [](int, int64_t) {}), 0);
    fs::remove_all(at("run/refresh-4.json.tmp"));
    run("run", on);
    EXPECT_TRUE(fs::exists(at("run/refresh-4.json")));
    EXPECT_EQ(history("run"), history("whole"));
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == bytes(std::string("whole") + kWeights));
}

// Settings of an adapter are tried one by one in resume_keys_test.cpp.
TEST_F(TrainTest, AnAdapterOfAnotherKindIsAnotherRun) {
    run("run", {{"adapter", "lora"}, {"lora_r", "4"}, {"max_steps", "4"}, {"save_steps", "4"}});
    for (const char* const other : {"ia3", "none"}) {
        try {
            run("run", {{"adapter", other}, {"resume", "auto"}});
            ADD_FAILURE() << other << " went on with lora's state";
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), HasSubstr("this would not be the same run: "));
            EXPECT_THAT(error.what(), HasSubstr("adapter was "));
        }
    }
}

}  // namespace
}  // namespace windlass
