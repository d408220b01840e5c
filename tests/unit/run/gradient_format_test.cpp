// Gradients in narrow forms change the numbers, once, and placement changes no bit of them; nor does stopping.
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr GradientFormat kNarrow[] = {GradientFormat::bf16, GradientFormat::i8, GradientFormat::i4};

EngineOptions narrow_options(GradientFormat format, DType compute, int micro_batches, double norm_limit) {
    return {.compute = compute,
            .method = {.weight_decay = 0.1, .max_grad_norm = norm_limit},
            .micro_batch_size = 2 / micro_batches,
            .micro_batches = micro_batches,
            .gradient_format = format};
}

// Of the plans, one of so many is looked at for each way; all of them under slow.
const size_t kNarrowStride = is_sanitized() ? 116 : 58;

using RoundedWay = std::tuple<const char*, GradientFormat, DType, int>;  // model, form, type, micro-batches
class NarrowPlacement : public testing::TestWithParam<RoundedWay> {};
class SlowNarrowPlacement : public NarrowPlacement {};

void expect_no_bit_changes_when_narrow(const RoundedWay& way, size_t first, size_t stride) {
    const auto& [name, format, compute, micro_batches] = way;
    const Golden golden(name);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    EngineOptions options =
        narrow_options(format, compute, micro_batches, std::string_view(name) == "llama" ? 3.2 : 2.9);
    const Outcome reference = run_steps(golden, batches, options);
    expect_some_clipped(reference);
    options.gradient_format = GradientFormat::f32;
    EXPECT_NE(run_steps(golden, batches, options).norms, reference.norms) << "nothing was rounded";
    options.gradient_format = format;
    const std::vector<Plan> plans = with_mixed(all_plans(), tiny_model(name));
    for (size_t index = first % stride; index < plans.size(); index += stride) {
        options.plan = plans[index];
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 200'000 : 0};
        const Outcome outcome = run_steps(golden, batches, options);
        EXPECT_TRUE(outcome == reference)
            << describe(options.plan) << ", each " << options.plan.device_groups << ", losses "
            << (outcome.losses == reference.losses) << ", norms " << (outcome.norms == reference.norms);
    }
}

// Ways next to each other begin with other plans.
TEST_P(NarrowPlacement, NeverChangesABit) {
    const auto& [name, format, compute, micro_batches] = GetParam();
    const size_t first = static_cast<size_t>(format) + 4 * at(micro_batches) + (compute == DType::f32 ? 12 : 0) +
                         (std::string_view(name) == "gpt2" ? 0 : 2);
    expect_no_bit_changes_when_narrow(GetParam(), first, kNarrowStride);
}
TEST_P(SlowNarrowPlacement, NeverChangesABit) {
    expect_no_bit_changes_when_narrow(GetParam(), 0, 1);
}

const auto kRoundedWays = testing::Combine(testing::Values("gpt2", "llama"), testing::ValuesIn(kNarrow),
                                           testing::Values(DType::f32, DType::bf16), testing::Values(1, 2));
INSTANTIATE_TEST_SUITE_P(Models, NarrowPlacement, kRoundedWays);
INSTANTIATE_TEST_SUITE_P(Models, SlowNarrowPlacement, kRoundedWays);

// Chunks of one parameter that wait on either side, and whose updates are guessed, done again and deferred.
TEST(NarrowGradients, ChunksOfOneParameterMayBeOnEitherSide) {
    if (is_sanitized()) GTEST_SKIP() << "millions of parameters, many times";
    const TempFolder folder;
    Golden golden("llama");
    golden.folder = with_a_long_table(golden, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    for (const GradientFormat format : {GradientFormat::f32, GradientFormat::i4}) {
        EngineOptions options = narrow_options(format, DType::bf16, 1, 1e30);
        options.method.max_grad_norm = 0.999 * run_steps(golden, batches, options).norms[0];
        const Outcome reference = run_steps(golden, batches, options);
        EXPECT_LT(reference.clips[0], 1);
        Plan plan{.policy = "host_stream",
                  .device = {.own_memory = true},
                  .host_threads = 1,
                  .update_ahead = 1,
                  .common = {.weights = Home::device, .state = Home::host, .gradients = Home::host}};
        for (const UpdateTime update :
             {UpdateTime::after_backward, UpdateTime::in_backward, UpdateTime::next_forward}) {
            plan.common.update = update;
            plan.device_groups = 2;
            options.plan = plan;
            EXPECT_TRUE(run_steps(golden, batches, options) == reference)
                << gradient_format_name(format) << ", " << update_time_name(update);
        }
        options.plan = disk_plan(Home::disk, Home::disk);
        options.plan.common.gradients = Home::disk;
        EXPECT_TRUE(run_steps(golden, batches, options) == reference) << gradient_format_name(format) << " on disk";
    }
}

// What visits the device is back before a step ends: a snapshot that is taken then goes on under other plans.
TEST(NarrowGradients, ASnapshotOfGroupsThatVisitedGoesOnToTheBit) {
    const Golden golden("gpt2");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const auto train = [&](Engine& engine, int64_t first, int64_t last) {
        for (int64_t step = first; step <= last; ++step) train_on(engine, batches[at(step % 2)], step, 1e-2);
    };
    for (const UpdateTime update : {UpdateTime::after_backward, UpdateTime::in_backward, UpdateTime::next_forward}) {
        const TempFolder folder;
        EngineOptions options = narrow_options(GradientFormat::i8, DType::bf16, 2, 2.9);
        const auto whole = make_engine(real_files(), golden.folder, options);
        train(*whole, 1, 4);
        options.plan = {
            .policy = "host_stream",
            .device = {.own_memory = true},
            .host_threads = 1,
            .device_groups = 2,
            .common = {.weights = Home::device, .state = Home::host, .gradients = Home::host, .update = update}};
        {
            const auto first = make_engine(real_files(), golden.folder, options);
            train(*first, 1, 2);
            first->snapshot(folder / "snapshot.wls", 2, run_state_of(2));
        }
        options.plan.device_groups = 3;
        const auto rest = make_engine(real_files(), golden.folder, options, /*load=*/false);
        Store store = Store::open(real_files(), folder / "snapshot.wls", OpenMode::read);
        EXPECT_EQ(rest->restore(store, {}), run_state_of(2));
        train(*rest, 3, 4);
        EXPECT_TRUE(state_bytes(*rest, real_files(), folder / "a.wls") ==
                    state_bytes(*whole, real_files(), folder / "b.wls"))
            << update_time_name(update);
    }
}

// Rounding is counted by the step, so a run that is killed and goes on draws what it would have drawn.
TEST(NarrowGradients, AReopenedStoreGoesOnToTheBit) {
    const Golden golden("gpt2");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    for (const GradientFormat format : kNarrow) {
        const TempFolder folder;
        EngineOptions options = narrow_options(format, DType::f32, 2, 2.9);
        const auto train = [&](Engine& engine, int64_t first, int64_t last) {
            for (int64_t step = first; step <= last; ++step) train_on(engine, batches[at(step % 2)], step, 1e-2);
        };
        const auto whole = make_engine(real_files(), golden.folder, options);
        train(*whole, 1, 4);
        options.plan = disk_plan(Home::disk, Home::disk);
        options.store_path = folder / "store.wls";
        train(*make_engine(real_files(), golden.folder, options), 1, 2);
        const auto rest = make_engine(real_files(), golden.folder, options, /*load=*/false);
        EXPECT_EQ(rest->reopen(), run_state_of(2));
        train(*rest, 3, 4);
        EXPECT_TRUE(state_bytes(*rest, real_files(), folder / "a.wls") ==
                    state_bytes(*whole, real_files(), folder / "b.wls"))
            << gradient_format_name(format);
    }
}

}  // namespace
}  // namespace windlass
