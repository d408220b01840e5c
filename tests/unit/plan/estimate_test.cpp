// Estimates against the whole: models of middling depth, under every plan there is.
#include "plan/estimate.h"

#include "model/sublayers.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

TrainedModel llama_of(int layers) {
    return model_of(fmt::format(R"({{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": {}, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 16000,
        "max_position_embeddings": 2048, "tie_word_embeddings": {}}})",
                                layers, layers % 2 == 0));
}

struct Whole {
    Simulation step;
    double redo_seconds = 0;
    ScheduleSet set;
};

Whole whole(const TrainedModel& model, const Numerics& numerics, const Machine& machine, const Plan& plan,
            const Recipe& recipe = make_recipe("adamw", {})) {
    Whole result{.set = checked(model, recipe, numerics, plan)};
    result.step = simulate(result.set.schedules[0], machine);
    if (const Schedule* redo = result.set.find("redo")) result.redo_seconds = simulate(*redo, machine).seconds;
    return result;
}

// Without a device beside the host, and two with one.
std::vector<Machine> machines() {
    const Machine laptop{.name = "laptop",
                         .threads = 8,
                         .gemm_f32_flops = 5e11,
                         .memory_bytes_per_s = 4e10,
                         .disk_read_bytes_per_s = 3e9,
                         .disk_write_bytes_per_s = 1.5e9};
    return {completed(laptop), find_machine(real_files(), "rtx4090-desktop"),
            find_machine(real_files(), "h200-server-8gen5")};
}

double relative(double a, double b) {
    return b > 0 ? std::abs(a / b - 1) : std::abs(a);
}

// Traffic and files to the byte; time within a thousandth; memory but for the gaps between buffers.
void expect_agreement(const Estimate& estimated, const Whole& full, double memory_error, const std::string& what) {
    const Demand &got = estimated.demand, &want = full.step.demand;
    EXPECT_LE(relative(estimated.seconds, full.step.seconds), 0.001) << what;
    EXPECT_LE(relative(estimated.redo_seconds, full.redo_seconds), 0.02) << what;
    for (size_t tier = 0; tier < kTierKinds; ++tier) {
        EXPECT_LE(relative(static_cast<double>(estimated.arena_bytes[tier]),
                           static_cast<double>(full.set.by_kind(full.set.arena_bytes)[tier])),
                  memory_error)
            << what;
    }
    EXPECT_EQ(got.disk_read_bytes, want.disk_read_bytes) << what;
    EXPECT_EQ(got.disk_write_bytes, want.disk_write_bytes) << what;
    EXPECT_EQ(got.up_bytes, want.up_bytes) << what;
    EXPECT_EQ(got.down_bytes, want.down_bytes) << what;
    EXPECT_EQ(got.memory_bytes, want.memory_bytes) << what;
    EXPECT_NEAR(got.flops, want.flops, 1e-9 * want.flops) << what;
    EXPECT_EQ(estimated.activation_file_bytes, full.set.activation_file_bytes()) << what;
}

class Estimates : public testing::TestWithParam<int> {};

TEST_P(Estimates, AgreeWithTheWholeUnderEveryPlan) {
    const TrainedModel model = llama_of(GetParam());
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 3);
    for (const Machine& machine : machines()) {
        for (Plan plan : plans_on(DeviceKind::fake)) {
            if (machine.unified_memory == plan.own_memory()) continue;
            plan.group_chunks = 4;
            plan.update_ahead = 1;
            const Whole full = whole(model, numerics, machine, plan);
            const Estimate estimated = estimate(model, make_recipe("adamw", {}), numerics, machine,
                                                [&](int) { return plan; }, {train_request(numerics)});
            expect_agreement(estimated, full, 0.01, fmt::format("{} on {}", describe(plan), machine.name));
        }
    }
}

// Every third layer keeps its state in the host's memory, the others on disk.
TEST_P(Estimates, AgreeWhereLayersAreTreatedByTurns) {
    const TrainedModel model = llama_of(GetParam());
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 2);
    const auto by_turns = [](int blocks) {
        Plan plan{.policy = "by turns",
                  .device = {.kind = DeviceKind::fake, .own_memory = true},
                  .host_threads = 4,
                  .store = true,
                  .group_chunks = 2};
        for (int block = 0; block < blocks; ++block) {
            const bool third = block % 3 == 1 && block + 1 < blocks;
            plan.blocks.push_back({.weights = Home::host,
                                   .state = third ? Home::host : Home::disk,
                                   .gradients = Home::host,
                                   .block_input = Home::host,
                                   .update = UpdateTime::in_backward,
                                   .recompute = true});
        }
        return plan;
    };
    for (const Machine& machine : machines()) {
        if (machine.unified_memory) continue;
        const Whole full = whole(model, numerics, machine, by_turns(GetParam() + 2));
        const Estimate estimated =
            estimate(model, make_recipe("adamw", {}), numerics, machine, by_turns, {train_request(numerics)}, 3);
        expect_agreement(estimated, full, 0.03, machine.name);
    }
}

// Slots in turn reach over several layers, and where they begin to share addresses is the short model's.
TEST(Estimate, AgreesWhereUpdatesRunFarAhead) {
    const TrainedModel model = llama_of(33);
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 2);
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    for (const int read_ahead : {0, 3}) {
        for (const int update_ahead : {2, 8}) {
            const auto by_turns = [&](int blocks) {
                Plan plan{.policy = "by turns",
                          .device = {.kind = DeviceKind::fake, .own_memory = true},
                          .host_threads = 4,
                          .store = true,
                          .read_ahead = read_ahead,
                          .group_chunks = 4,
                          .update_ahead = update_ahead};
                for (int block = 0; block < blocks; ++block) {
                    plan.blocks.push_back(
                        {.weights = Home::host,
                         .state = Home::disk,
                         .gradients = Home::host,
                         .block_input = Home::host,
                         .update = block % 2 == 0 ? UpdateTime::in_backward : UpdateTime::next_forward,
                         .recompute = true});
                }
                return plan;
            };
            const Whole full = whole(model, numerics, machine, by_turns(35));
            const Estimate estimated =
                estimate(model, make_recipe("adamw", {}), numerics, machine, by_turns, {train_request(numerics)}, 2);
            expect_agreement(estimated, full, 0.03, fmt::format("{} and {} ahead", read_ahead, update_ahead));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Layers, Estimates, testing::Values(5, 12, 25, 48), testing::PrintToStringParamName());

// A model this shallow is lowered as it is, with neighbouring chunks as one: that changes no time and no byte.
TEST(Estimate, JoinedChunksCostTheSame) {
    const TrainedModel model = model_of(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14000,
        "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 2048, "tie_word_embeddings": false})");
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 3);
    for (const StateFormat format : {StateFormat::fp32, StateFormat::int8}) {
        const Recipe recipe = make_recipe("adamw", {.state_format = format});
        for (const GradientFormat gradients : {GradientFormat::f32, GradientFormat::bf16}) {
            Numerics narrow = numerics;
            narrow.gradient_format = gradients;
            for (const Machine& machine : machines()) {
                for (Plan plan : plans_on(DeviceKind::fake)) {
                    if (machine.unified_memory == plan.own_memory()) continue;
                    plan.group_chunks = 4;
                    const Estimate estimated =
                        estimate(model, recipe, narrow, machine, [&](int) { return plan; }, {train_request(narrow)});
                    const Whole full = whole(model, narrow, machine, plan, recipe);
                    const std::string what = fmt::format("{} on {}", describe(plan), machine.name);
                    EXPECT_EQ(estimated.seconds, full.step.seconds) << what;
                    EXPECT_EQ(estimated.redo_seconds, full.redo_seconds) << what;
                    EXPECT_EQ(estimated.arena_bytes, full.set.by_kind(full.set.arena_bytes)) << what;
                    EXPECT_EQ(estimated.demand.disk_write_bytes, full.step.demand.disk_write_bytes) << what;
                }
            }
        }
    }
}

// The whole of it has 126 layers; its estimate lowers ten.
TEST(Estimate, LowersAFewLayers) {
    const TrainedModel model = model_of(kLlama405b);
    const Numerics numerics = numerics_of(DType::bf16, 1, 1024, 2);
    const Plan plan{.device = {.kind = DeviceKind::fake, .own_memory = true},
                    .host_threads = 4,
                    .store = true,
                    .group_chunks = 64,
                    .common = {.weights = Home::disk,
                               .state = Home::disk,
                               .gradients = Home::disk,
                               .block_input = Home::host,
                               .recompute = true}};
    std::vector<int> blocks;
    const Machine machine = machines()[2];
    const Estimate estimated = estimate(model, make_recipe("adamw", {}), numerics, machine,
                                        [&](int count) {
                                            blocks.push_back(count);
                                            return plan;
                                        },
                                        {train_request(numerics)});
    EXPECT_EQ(blocks, (std::vector<int>{128, 12, 10}));
    expect_agreement(estimated, whole(model, numerics, machine, plan), 0.01, "405b");
}

// Sublayers take turns in size, and slots in being filled.
TEST(Estimate, OfSublayersThatGoUpAheadIsTheWhole) {
    const Recipe recipe = make_recipe("zeroth_order", {.directions = 2});
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    const Numerics numerics = numerics_of(DType::bf16, 1, 64, 1);
    for (const int layers : {24, 31}) {
        const TrainedModel model = in_sublayers(stored_as(llama_of(layers), recipe));
        for (int ahead = 0; ahead < 5; ++ahead) {
            for (const bool one_probe : {false, true}) {
                const Plan plan{.policy = "host_stream",
                                .device = {.kind = DeviceKind::fake, .own_memory = true},
                                .read_ahead = ahead,
                                .upload_ahead = ahead,
                                .one_probe = one_probe,
                                .common = {.weights = Home::host, .update = UpdateTime::next_forward}};
                const Whole full = whole(model, numerics, machine, plan, recipe);
                const Estimate got =
                    estimate(model, recipe, numerics, machine, [&](int) { return plan; }, {train_request(numerics)});
                expect_agreement(got, full, 0.02, fmt::format("{} layers, {} ahead", layers, ahead));
                EXPECT_NEAR(got.demand.noise, full.step.demand.noise, 1e-9 * full.step.demand.noise);
            }
        }
    }
}

}  // namespace
}  // namespace windlass
