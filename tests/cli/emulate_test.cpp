// A device with a memory of its own, through the real program: whatever of it a run may use, the model that comes out
// is that of everything in memory; what does not fit is refused with advice that is enough; and what was predicted
// holds.
#include <gmock/gmock.h>

#include "base/units.h"
#include "tests/cli/provoked.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

struct Emulated {
    std::string model;
    std::string policy;
    std::string update_time = "auto";
    std::string state_format = "fp32";
};

void PrintTo(const Emulated& run, std::ostream* out) {
    *out << run.model << ", " << run.policy << ", update " << run.update_time << ", " << run.state_format;
}

std::string name_of_emulated(const testing::TestParamInfo<Emulated>& info) {
    return fmt::format("{}_{}_{}_{}", info.param.model, info.param.policy, info.param.update_time,
                       info.param.state_format);
}

Settings settings_of(Sandbox& sandbox, const Emulated& run) {
    Settings settings = sandbox.training(run.model);
    settings["max_steps"] = "6";
    settings["max_grad_norm"] = "1";
    settings["policy"] = run.policy;
    settings["state_format"] = run.state_format;
    settings["update_time"] = run.update_time;
    settings["device"] = "cpu:emulate";
    settings["link_rate"] = "20GB";
    if (run.policy != "three_tier") return settings;
    settings["ssd_dir"] = sandbox / "ssd";
    settings["disk_rate"] = "20GB";
    return settings;
}

Json plan_of(const Sandbox& sandbox, const Settings& settings) {
    std::vector<std::string> words = words_of(settings);
    words.insert(words.begin(), {"plan", "--alone", "--json"});
    return json_of(sandbox.windlass(words));
}

struct Trained {
    std::string model;
    std::vector<Json> metrics;
};

Trained trained(const Sandbox& sandbox) {
    return {read_bytes(sandbox.out() + "/final/model.safetensors"), metrics_of(sandbox.out())};
}

Trained trained_in_memory(const Emulated& setup) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, {setup.model, "in_memory", "auto", setup.state_format});
    settings["device"] = "cpu";
    settings.erase("link_rate");
    must_succeed(sandbox.train(settings));
    return trained(sandbox);
}

class EmulatedDevice : public testing::TestWithParam<Emulated> {};

// With all of the device's memory that it can use, with as little as the refusal says, and halfway.
TEST_P(EmulatedDevice, TrainsTheModelOfEverythingInMemory) {
    const Trained expected = trained_in_memory(GetParam());
    const auto is_clipped = [](const Json& line) { return line.at("clipped").get<bool>(); };
    EXPECT_TRUE(std::ranges::any_of(expected.metrics, is_clipped));
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam());
    const int64_t least = least_device_memory(sandbox, settings);
    // Trains, and says what the plan takes of the device.
    const auto device_bytes = [&] {
        const Json said = json_of(sandbox.train(settings, {"--overwrite", "--json"}));
        const Trained got = trained(sandbox);
        EXPECT_TRUE(got.model == expected.model) << "final weights differ with " << settings["device_memory"];
        EXPECT_EQ(got.metrics, expected.metrics);
        return said.value("predicted_device_bytes", int64_t{0});
    };
    const int64_t most = device_bytes();
    ASSERT_GE(most, least / 100 * 99);
    for (const int64_t device_memory : {least, (least + most) / 2}) {
        settings["device_memory"] = std::to_string(device_memory);
        const int64_t planned = device_bytes();
        EXPECT_GT(planned, 0);
        EXPECT_LE(planned, device_memory);
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, EmulatedDevice,
                         testing::Values(Emulated{"llama3", "in_memory"}, Emulated{"llama3", "host_stream"},
                                         Emulated{"gpt2", "host_stream", "next_forward", "bf16"},
                                         Emulated{"llama3", "host_stream", "in_backward", "int8"},
                                         Emulated{"gpt2", "in_memory", "in_backward"},
                                         Emulated{"llama_tiny", "host_stream", "after_backward", "int8"},
                                         Emulated{"gpt2", "three_tier"},
                                         Emulated{"llama_tiny", "three_tier", "in_backward"},
                                         Emulated{"llama3", "three_tier", "next_forward", "bf16"},
                                         Emulated{"llama3", "three_tier", "in_backward", "int8"}),
                         name_of_emulated);

// ---- memory as predicted ----

// A model whose arenas are larger than what the process itself takes: 13 million parameters, in few layers, because
// planning takes as long as there are layers.
std::string larger_model(const Sandbox& sandbox) {
    const std::string folder = sandbox / "larger";
    must_succeed({.words = {binary_dir() + "/make_model", "--shape", "llama-tiny", "--hidden", "512", "--layers", "3",
                            "--ffn", "2048", "--seed", "1", "--out", folder}});
    return folder;
}

// Bytes of a row of the placement table, in memory of either kind.
int64_t row_bytes(const Json& plan, const std::string& owner) {
    for (const Json& row : plan.at("placement"))
        if (row.at("owner") == owner)
            return row.at("memory_bytes").get<int64_t>() + row.at("device_bytes").get<int64_t>();
    ADD_FAILURE() << "no row " << owner;
    return 0;
}

struct Where {
    std::string device, policy, method = "adamw";
};

void PrintTo(const Where& where, std::ostream* out) {
    *out << where.device << ", " << where.policy << ", " << where.method;
}

class PredictedPeak : public testing::TestWithParam<Where> {};

// Arenas are touched before the first step, so no run takes less than they; what the process takes beside them is
// allowed for. A budget of just what is predicted, which is enforced, is enough.
TEST_P(PredictedPeak, HoldsTheRun) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["model"] = larger_model(sandbox);
    settings["device"] = GetParam().device;
    settings["policy"] = GetParam().policy;
    settings["method"] = GetParam().method;
    if (GetParam().policy == "three_tier") settings["ssd_dir"] = sandbox / "ssd";
    const Json plan = plan_of(sandbox, settings);
    const int64_t memory = plan.at("memory_bytes"), device = plan.at("device_bytes");
    const int64_t arenas = memory + device - row_bytes(plan, "program and libraries");
    EXPECT_EQ(device > 0, GetParam().device == "cpu:emulate");
    EXPECT_GT(arenas, 16 * kMiB);
    constexpr int64_t kProcessVaries = kMiB;  // from one start to the next
    settings["ram"] = std::to_string(memory + kProcessVaries);
    const int64_t peak = json_of(sandbox.train(settings, {"--json"})).at("peak_bytes");
    EXPECT_LE(peak, memory + device + kProcessVaries);
    EXPECT_GE(peak, arenas);
}

INSTANTIATE_TEST_SUITE_P(Policies, PredictedPeak,
                         testing::Values(Where{"cpu", "in_memory"}, Where{"cpu", "three_tier"},
                                         Where{"cpu:emulate", "in_memory"}, Where{"cpu:emulate", "host_stream"},
                                         Where{"cpu:emulate", "three_tier"}, Where{"cpu", "in_memory", "zeroth_order"},
                                         Where{"cpu", "in_memory", "forward_gradient"},
                                         Where{"cpu:emulate", "host_stream", "zeroth_order"},
                                         Where{"cpu:emulate", "three_tier", "zeroth_order"}),
                         [](const auto& info) {
                             return fmt::format("{}_{}_{}", info.param.device == "cpu" ? "cpu" : "emulated",
                                                info.param.policy, info.param.method);
                         });

// ---- refusals ----

// A run on the emulated device with these settings beside.
std::function<Command(Sandbox&)> emulated(const Settings& changes, bool on_disk = false) {
    return [changes, on_disk](Sandbox& sandbox) {
        Settings settings = on_disk ? sandbox.training_on_disk() : sandbox.training();
        settings["device"] = "cpu:emulate";
        for (const auto& [key, value] : changes) settings[key] = value;
        return sandbox.train(settings);
    };
}

std::vector<Provoked> refusals() {
    return {
        {"LittleDeviceMemory",
         emulated({{"policy", "host_stream"}, {"device_memory", "10KiB"}}),
         kNoFit,
         {"does not fit", "of device memory", "10.00 KiB", "Try: --device-memory"}},
        {"LittleDeviceMemoryWithDisk",
         emulated({{"device_memory", "10KiB"}}, true),
         kNoFit,
         {"does not fit", "of device memory", "Try: --device-memory"}},
        {"LittleOfBothMemories",
         emulated({{"policy", "host_stream"}, {"device_memory", "10KiB"}, {"ram", "20MiB"}}),
         kNoFit,
         {"does not fit", "Try: --ram ", " --device-memory "}},
        {"HostStreamWithoutADevice",
         emulated({{"device", "cpu"}, {"policy", "host_stream"}}),
         kUsage,
         {"host_stream has no plan for cpu", "Try: policy: auto"}},
        {"NotADevice", emulated({{"device", "gpu"}}), kUsage, {"device", "\"gpu\"", "cpu:emulate"}},
        {"NotARate", emulated({{"link_rate", "fast"}}), kUsage, {"link_rate", "\"fast\" is not a size", "Try: "}},
        {"ShareOfNoRate", emulated({{"link_rate", "50%"}}), kUsage, {"link_rate", "\"50%\" is a share", "4GiB"}},
        {"NegativeDiskRate", emulated({{"disk_rate", "-1"}}, true), kUsage, {"disk_rate", "\"-1\" is not a size"}},
        {"RatesOfWhatIsNotThere",
         emulated({{"device", "cpu"}, {"link_rate", "1GB"}, {"disk_rate", "1GB"}, {"device_memory", "1GB"}}),
         kUsage,
         {"3 problems", "link_rate is set", "disk_rate is set", "device_memory is set", "device: cpu:emulate"}},
    };
}

class DeviceErrors : public testing::TestWithParam<Provoked> {};

TEST_P(DeviceErrors, AreNamedBeforeAnyWeightIsRead) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Settings, DeviceErrors, testing::ValuesIn(refusals()),
                         [](const auto& info) { return cli::name_of_provoked(info); });

}  // namespace
}  // namespace windlass::cli
