// Runs with device: cuda, from a configuration to a model folder, on devices that are the CPU.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "op/ops.h"
#include "persist/replay.h"
#include "schedule/machine_text.h"
#include "tests/simt/emulated.h"
#include "tests/simt/train/device_run.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class DeviceTraining : public DeviceRun {
  protected:
    Settings on_card(Settings more = {}) const {
        more.insert({{"device", "cuda"}, {"max_steps", "4"}});
        return more;
    }
    std::string problem(const std::string& name, const Settings& changes, ExitCode code) {
        try {
            run(name, changes);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.what();
            return error.what();
        }
        return "";
    }
    void expect_one_outcome(const Settings& settings) {
        const auto with = [&](Settings more) {
            more.insert(settings.begin(), settings.end());
            return on_card(more);
        };
        run("in_memory", with({{"policy", settings.contains("method") ? "host_stream" : "in_memory"}}));
        run("elsewhere", with({{"policy", "three_tier"}, {"device_memory", "2 MiB"}}));
        EXPECT_EQ(history("in_memory"), history("elsewhere"));
        EXPECT_TRUE(bytes(std::string("in_memory") + kWeights) == bytes(std::string("elsewhere") + kWeights));
        Settings cpu = settings;
        cpu["max_steps"] = "4";
        run("cpu", cpu);
        const std::vector<double> here = losses("in_memory"), there = losses("cpu");
        ASSERT_EQ(here.size(), there.size());
        EXPECT_NEAR(here[0], there[0], 1e-5 * there[0]);
        EXPECT_TRUE(history("in_memory") != history("cpu") || settings.contains("method")) << "the CPU computed";
    }
};

TEST_F(DeviceTraining, MeasuresADeviceOnceAndKeepsIt) {
    for (const auto rate :
         {&Machine::gemm_bf16_flops, &Machine::gemm_f32_flops, &Machine::narrow_bf16_flops, &Machine::narrow_f32_flops,
          &Machine::attention_bf16_flops, &Machine::attention_f32_flops, &Machine::device_memory_bytes_per_s,
          &Machine::link_up_bytes_per_s, &Machine::link_down_bytes_per_s, &Machine::link_both_bytes_per_s,
          &Machine::noise_per_s, &Machine::kernel_seconds})
        EXPECT_GT(machine_.*rate, 0);
    EXPECT_EQ(machine_.device_updates.size(), 7u);
    EXPECT_FALSE(machine_.unified_memory);
    EXPECT_EQ(machine_.device_memory_bytes, int64_t{1} << 34);
    simt::emulate({});
    Machine again = known_machine(files_, "", 2);
    again.memory_bytes_per_s = 5;
    add_device(files_, kCard, kSmallestProbe, again);
    EXPECT_EQ(simt::calls(), 0) << "it was measured again";
    EXPECT_EQ(again.gemm_bf16_flops, machine_.gemm_bf16_flops);
    EXPECT_EQ(again.device_updates, machine_.device_updates);
    EXPECT_EQ(again.memory_bytes_per_s, 5) << "of the host";
}

// The host's, too: which of them was busy is not known.
TEST_F(DeviceTraining, ForgetsRatesThatAStepBeats) {
    const std::string host = machine_cache_path("", 2);
    std::string card;
    for (const auto& entry : std::filesystem::directory_iterator(at("cache/windlass")))
        if (entry.path().filename().string().starts_with("device-")) card = entry.path();
    machine_.device_memory_bytes_per_s = 1;
    std::ofstream(card) << machine_text(machine_);
    EXPECT_TRUE(files_.exists(host));
    run("doubted", on_card({{"max_steps", "2"}}));
    EXPECT_FALSE(files_.exists(host));
    EXPECT_FALSE(files_.exists(card));
}

// Rates are what a command asks of a model's kernels first.
TEST_F(DeviceTraining, HeadsThatItsKernelsDoNotTakeAreRefusedBeforeAPlan) {
    const int64_t size = 264;
    const KernelCase wide{.key = "attention of wide heads",
                          .op = &kAttention,
                          .spec = {.attrs = AttentionAttrs{.heads = 1, .key_heads = 1, .head_size = size, .scale = 1},
                                   .in = {{size}, {size}, {size}}},
                          .size = {.rows = 1, .sequence_length = 8}};
    try {
        calibrate_kernels({&wide, 1}, *make_device(kCard), 1, machine_);
        ADD_FAILURE() << "they were measured";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::gpu);
        EXPECT_THAT(error.what(), HasSubstr("up to a size of 256, not 264"));
    }
}

// Values that the card's cache holds are read faster than those of a step.
TEST_F(DeviceTraining, KernelsAreMeasuredOnMoreThanTheCacheHolds) {
    const KernelCase add{.key = "add",
                         .op = &kAdd,
                         .spec = {.in = {{128}, {128}}},
                         .size = {.rows = 1, .sequence_length = 64, .device = DeviceKind::cuda}};
    for (const int64_t cache_bytes : {int64_t{1} << 18, int64_t{1} << 19}) {
        int64_t used = 0;
        const auto device = make_device(kCard);
        const int64_t before = device->properties().free_bytes;
        simt::emulate({.cache_bytes = cache_bytes, .launching = [&](const char*) {
                           used = std::max(used, before - device->properties().free_bytes);
                       }});
        machine_.kernels.clear();
        calibrate_kernels({&add, 1}, *device, 1, machine_);
        simt::emulate({});
        EXPECT_GE(used, 2 * cache_bytes);
        EXPECT_LT(used, 3 * cache_bytes);
    }
}

TEST_F(DeviceTraining, AdamwIsTheSameWhereverItIsPlaced) {
    expect_one_outcome({});
}

TEST_F(DeviceTraining, ZerothOrderIsTheSameWhereverItIsPlaced) {
    expect_one_outcome({{"method", "zeroth_order"}});
}

// Its kernels and its library are not the CPU's, and the run's identity says so.
TEST_F(DeviceTraining, GoesOnThereAndNowhereElse) {
    run("whole", on_card({{"max_steps", "6"}, {"save_steps", "2"}}));
    run("run", on_card({{"save_steps", "2"}}));
    const std::string refusal = problem("run", {{"max_steps", "6"}, {"resume", "auto"}}, ExitCode::usage);
    EXPECT_THAT(refusal, HasSubstr("kernel path"));
    EXPECT_THAT(refusal, HasSubstr("sm_90"));
    EXPECT_THAT(refusal, HasSubstr("allow_changed_settings: [kernels]"));
    run("run", on_card({{"max_steps", "6"}, {"save_steps", "2"}, {"resume", "auto"}}));
    EXPECT_EQ(history("run"), history("whole"));
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == bytes(std::string("whole") + kWeights));
}

// But where it is allowed to: then what computed which steps stands in the run from there on.
TEST_F(DeviceTraining, GoesOnWithOtherKernelsWhereThatIsAllowed) {
    set_log_level(LogLevel::warning);
    run("run", on_card({{"max_steps", "2"}, {"save_steps", "2"}}));
    const Settings own = {{"max_steps", "6"}, {"save_steps", "2"}, {"resume", "auto"}};
    Settings allowed = own;
    allowed["allow_changed_settings"] = "[kernels]";
    run("run", allowed);
    EXPECT_EQ(std::ssize(history("run")), 6);
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("Resuming with changed settings: kernel path"));
    EXPECT_THAT(bytes("run/run.yaml"), HasSubstr(R"("kernels_before":["until step 2: sm_90 x 2, wgmma, plain"])"));
    Settings longer = own;
    longer["max_steps"] = "8";
    run("run", longer);  // the CPU's are the run's own now
    EXPECT_THAT(bytes("run/run.yaml"), HasSubstr(R"("kernels_before":["until step 2: sm_90 x 2, wgmma, plain"])"));
}

// Attention of compute capability 9.0 has kernels, and bits, of its own.
TEST_F(DeviceTraining, GoesOnOnOneArchitectureOnly) {
    simt::emulate({.capability = 80});
    Machine other = known_machine(files_, "", 2);
    add_device(files_, kCard, kSmallestProbe, other);
    run("run", on_card({{"max_steps", "2"}, {"save_steps", "2"}}));
    simt::emulate({});
    const std::string refusal = problem("run", on_card({{"max_steps", "6"}, {"resume", "auto"}}), ExitCode::usage);
    EXPECT_THAT(refusal, HasSubstr("kernel path"));
    EXPECT_THAT(refusal, HasSubstr("sm_80 x 2"));
    EXPECT_THAT(refusal, HasSubstr("sm_90 x 2, wgmma"));
}

TEST_F(DeviceTraining, ABudgetThatIsTooSmallAndADeviceThatIsNotThereAreRefused) {
    EXPECT_THAT(problem("small", on_card({{"device_memory", "1 KiB"}}), ExitCode::no_fit),
                HasSubstr("--device-memory"));
    EXPECT_THAT(problem("other", {{"device", "cuda:3"}}, ExitCode::gpu), HasSubstr("there is no cuda:3"));
    EXPECT_THAT(problem("none", {{"device", "fake"}}, ExitCode::usage), HasSubstr("is not one of"));
}

// The log of a run on a card, taken through its steps by the CPU, gives the weights of the card.
TEST_F(DeviceTraining, TheCpuReplaysItsLog) {
    run("run", on_card({{"method", "zeroth_order"}, {"noise", "low_rank"}, {"dtype", "bf16"}}));
    replay_log(files_, {.base = at("model"), .log = at("run/trajectory.wlt"), .target = at("replayed")});
    EXPECT_TRUE(bytes("replayed/model.safetensors") == bytes(std::string("run") + kWeights));
}

}  // namespace
}  // namespace windlass
