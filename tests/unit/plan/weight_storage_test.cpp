// Weights in 8 or 4 bits: half the bytes of bf16, or a quarter, wherever they lie and whatever way they go.
#include "format/store_map.h"
#include "method/param_groups.h"
#include "model/sublayers.h"
#include "plan/planner.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

int64_t weights_in(const Planned& planned) {
    int64_t bytes = 0;
    for (const PlacementRow& row : planned.placement) bytes += row.tag == "weights" ? row.memory_bytes : 0;
    return bytes;
}

Planned plan(const TrainedModel& model, Home home) {
    const Machine machine{.gemm_bf16_flops = 1e12,
                          .gemm_f32_flops = 5e11,
                          .memory_bytes_per_s = 2e10,
                          .disk_read_bytes_per_s = 3e9,
                          .disk_write_bytes_per_s = 1e9};
    const Numerics numerics = numerics_of(DType::bf16, 1, 2048, 1);
    const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                              .budgets = {.ram = kPlenty, .disk = kPlenty, .device = kPlenty},
                              .schedules = {train_request(numerics)}};
    const Plan plan{.policy = "test",
                    .device = request.device,
                    .store = home == Home::disk,
                    .read_ahead = 1,
                    .common = {.weights = home, .state = home, .update = UpdateTime::next_forward}};
    return evaluate_plan(model, make_recipe("zeroth_order", {}), numerics, machine, request, plan);
}

TEST(WeightStorage, HalvesWhatIsKeptAndWhatIsMoved) {
    std::string config = kOpt175b;
    config.replace(config.find("96,"), 3, "4,");
    TrainedModel model = model_of(config);
    for (ParamSpec& param : model.params) param.file_dtype = DType::bf16;
    set_store(model, StoreType::as_file);
    model = in_sublayers(model);
    TrainedModel narrow = model;
    keep_in_8_bits(narrow);
    const auto half = [](int64_t narrow, int64_t wide) {
        EXPECT_GT(narrow, 0);
        EXPECT_NEAR(static_cast<double>(narrow), 0.5 * static_cast<double>(wide), 1e-3 * static_cast<double>(wide));
    };
    for (const Home home : {Home::host, Home::disk}) {
        const Planned is = plan(narrow, home), was = plan(model, home);
        half(is.step.demand.up_bytes, was.step.demand.up_bytes);
        half(is.step.demand.down_bytes, was.step.demand.down_bytes);
        if (home == Home::host) half(weights_in(is), weights_in(was));
        if (home == Home::disk) half(is.disk_bytes, was.disk_bytes);
        if (home == Home::disk) half(is.step.demand.disk_read_bytes, was.step.demand.disk_read_bytes);
        if (home == Home::disk) half(is.step.demand.disk_write_bytes, was.step.demand.disk_write_bytes);
        EXPECT_EQ(is.step.demand.flops, was.step.demand.flops);
        // Updates are rounded to 8 bits in more steps than to 16.
        EXPECT_GT(is.step.demand.noise, was.step.demand.noise);
        EXPECT_LT(is.step.demand.noise, 1.3 * was.step.demand.noise);
    }
}

// Frozen matrices of layers: 34 bytes for 64 weights, which nobody writes. All else is what it was.
TEST(WeightStorage, KeepsFrozenMatricesInThirtyFourBytesForSixtyFour) {
    std::string config = kOpt175b;
    config.replace(config.find("96,"), 3, "4,");
    TrainedModel model = model_of(config);
    for (size_t param = 0; param < model.params.size(); ++param) {
        ParamSpec& spec = model.params[param];
        spec.file_dtype = DType::bf16;
        model.training[param].trains = spec.layer < 0 || spec.shape.rank() < 2;
    }
    separate_programs(model);
    set_store(model, StoreType::as_file);
    model = in_sublayers(model);
    TrainedModel narrow = model;
    keep_in_4_bits(narrow);
    int64_t matrices = 0;
    for (const Param param : narrow.all_params()) {
        EXPECT_EQ(param.storage.dtype, param.trains() ? DType::bf16 : DType::nf4) << param.spec.name;
        if (!param.trains()) matrices += param.numel();
    }
    ASSERT_GT(matrices, 4 * int64_t{12'000} * 12'000 * 12);
    const int64_t saved = matrices * 2 - matrices / 64 * 34;
    for (const Home home : {Home::host, Home::disk}) {
        const Planned is = plan(narrow, home), was = plan(model, home);
        EXPECT_EQ(was.step.demand.up_bytes - is.step.demand.up_bytes, saved);
        EXPECT_EQ(was.step.demand.down_bytes, is.step.demand.down_bytes);
        EXPECT_EQ(was.step.demand.disk_write_bytes, is.step.demand.disk_write_bytes);
        if (home == Home::host) {
            EXPECT_EQ(weights_in(was) - weights_in(is), saved);
        } else {
            EXPECT_EQ(was.step.demand.disk_read_bytes - is.step.demand.disk_read_bytes, saved);
            // One version of what is only read; the text of the layout may take a page more.
            EXPECT_LE(std::abs(was.disk_bytes - is.disk_bytes - saved), StoreMap::kAlignment);
        }
        EXPECT_EQ(is.step.demand.flops, was.step.demand.flops);
    }
}

}  // namespace
}  // namespace windlass
