// Placement never changes a bit: every plan gives the losses, weights and moments of everything in memory.
#include <cmath>
#include <cstring>

#include "schedule/layout.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Without a store, updated at other times than behind backward: on either lane, in memory of the device's own and in
// the host's.
std::vector<Plan> updated_apart_in_memory() {
    std::vector<Plan> plans;
    for (int index = 0; index < 16; ++index) {
        const bool own_memory = index % 2 == 1, beside = index / 2 % 2 == 1;
        const Home home = own_memory && beside ? Home::host : Home::device;
        plans.push_back(
            {.policy = home == Home::host ? "host_stream" : "in_memory",
             .device = {.own_memory = own_memory},
             .threads = 1 + index % 3,
             .host_threads = beside ? 1 + index / 4 % 2 : 0,
             .order = home == Home::device && index / 4 % 2 == 0 ? MicroOrder::horizontal : MicroOrder::vertical,
             .read_ahead = index / 4,
             .update_ahead = index / 4 % 3,
             .common = {.weights = home,
                        .state = home,
                        .gradients = home,
                        .boundary = home,
                        .update = index < 12 ? UpdateTime::in_backward : UpdateTime::next_forward,
                        .recompute = index % 3 == 2}});
    }
    return plans;
}

// Every home of everything, every time of the update, on a device that shares the host's memory and on one of its own.
std::vector<Plan> all_plans() {
    std::vector<Plan> plans = updated_apart_in_memory();
    for (const int threads : {1, 2, 3}) {
        for (const bool recompute : {false, true}) {
            for (const MicroOrder order : {MicroOrder::vertical, MicroOrder::horizontal}) {
                plans.push_back({.policy = "in_memory", .threads = threads, .order = order});
                plans.back().common.recompute = recompute;
            }
        }
    }
    for (int index = 0; index < 36; ++index) {
        const bool own_memory = index % 2 == 1, store = index % 3 != 0, many = index / 2 % 2 == 1;
        const Home near = own_memory ? Home::host : Home::device, far = store ? Home::disk : near;
        Plan plan{.policy = store ? "three_tier" : "host_stream",
                  .device = {.own_memory = own_memory},
                  .threads = 1 + index % 3,
                  .host_threads = own_memory || many ? 1 + index / 4 % 2 : 0,
                  .store = store,
                  .read_ahead = index / 3 % 3,
                  .update_ahead = index / 4 % 3};
        plan.common = {.weights = index / 3 % 2 == 0 ? far : near,
                       .state = index % 5 == 0 ? near : far,
                       .gradients = index / 6 % 2 == 0 ? far : near,
                       .boundary = index / 4 % 2 == 0 ? far : near,
                       .update = static_cast<UpdateTime>(index / 6 % 3),
                       .recompute = index % 4 == 2};
        plans.push_back(plan);
    }
    // Everything on disk, read ever earlier: over the turn from forward to reverse, and past blocks' updates.
    for (int index = 0; index < 12; ++index) {
        const bool own_memory = index % 2 == 1;
        plans.push_back({.policy = "three_tier",
                         .device = {.own_memory = own_memory},
                         .host_threads = own_memory ? 1 : 0,
                         .store = true,
                         .read_ahead = 1 + index / 2 % 3,
                         .update_ahead = index % 3,
                         .common = {.weights = Home::disk,
                                    .state = Home::disk,
                                    .gradients = index % 4 < 2 ? Home::disk
                                                 : own_memory  ? Home::host
                                                               : Home::device,
                                    .update = index < 6 ? UpdateTime::next_forward : UpdateTime::in_backward}});
    }
    return plans;
}

// Each block another way, and each of its saved values.
Plan mixed_values(const Plan& plan, const TrainedModel& model) {
    Plan mixed = mixed_plan(plan, model.blocks.size());
    const OpSize size{.rows = 1, .row_length = 24};  // how many saved values there are does not depend on it
    for (size_t block = 0; block < model.blocks.size(); ++block) {
        BlockPlan& each = mixed.blocks[block];
        each.recompute = plan.common.recompute;
        const size_t saved = saved_values(*model.blocks[block].program, size, {}).size();
        for (size_t value = 0; value < saved; ++value) {
            const auto choice = static_cast<SaveChoice>((value + block + static_cast<size_t>(plan.threads)) % 4);
            each.saved.push_back(choice == kKeepOnDisk && !plan.store ? SaveChoice::keep : choice);
        }
    }
    return mixed;
}

// Each model and type takes a part of the plans, neighbours in this list different ones, so that all are taken.
// Sanitizers look at how plans are executed, which fewer show.
const size_t kTrainedStride = is_sanitized() ? 11 : 2;

// Clips some of the steps, not all.
double norm_limit(std::string_view model) {
    return model == "llama" ? 3.2 : 2.9;
}

class Placement : public testing::TestWithParam<std::tuple<const char*, DType, int, StateFormat>> {};

TEST_P(Placement, NeverChangesABit) {
    const auto& [name, compute, micro_count, format] = GetParam();
    const Golden golden(name);
    EngineOptions options{.compute = compute,
                          .method = {.weight_decay = 0.1, .max_grad_norm = norm_limit(name), .state_format = format},
                          .micro_rows = 2 / micro_count,
                          .micro_count = micro_count};
    const std::array<TestBatch, 2> batches = {TestBatch(golden.ids("ids"), golden.ids("targets"), 2),
                                              TestBatch(golden.ids("ids_b"), golden.ids("targets_b"), 2)};
    const Outcome reference = run_steps(golden, batches, options);
    expect_some_clipped(reference);
    std::vector<Plan> plans = all_plans();
    for (size_t index = 0, count = plans.size(); index < count; ++index) {
        // What a device updates in its own memory is all there.
        const bool stays = plans[index].own_memory() && plans[index].common.state == Home::device;
        if (plans[index].order == MicroOrder::vertical && !stays)
            plans.push_back(mixed_values(plans[index], tiny_model(name)));
    }
    const auto first = static_cast<size_t>(micro_count + static_cast<int>(format)) % kTrainedStride;
    for (size_t index = first; index < plans.size(); index += kTrainedStride) {
        const Plan& plan = plans[index];
        options.plan = plan;
        // Lanes overtake each other in ways that a quiet machine never shows.
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 200'000 : 0};
        // A real drive for some: a sync of it takes longer than a step.
        const bool on_drive = plan.store && plan.threads == 2;
        const TempFolder folder;
        const Outcome outcome = on_drive ? run_steps(golden, batches, options, real_files(), folder.path())
                                         : run_steps(golden, batches, options);
        EXPECT_TRUE(outcome == reference)
            << describe(plan) << (plan.blocks.empty() ? "" : ", mixed") << ", losses "
            << (outcome.losses == reference.losses) << ", norms " << (outcome.norms == reference.norms);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Placement,
                         testing::Combine(testing::Values("gpt2", "llama", "llama3"),
                                          testing::Values(DType::f32, DType::bf16), testing::Values(1, 2),
                                          testing::Values(StateFormat::s1)));
INSTANTIATE_TEST_SUITE_P(Formats, Placement,
                         testing::Combine(testing::Values("gpt2", "llama"), testing::Values(DType::f32),
                                          testing::Values(2), testing::Values(StateFormat::s2, StateFormat::s3)));

// Behind a first step whose gradients are not clipped AdamW's first moments are its gradients, but for a factor. Of
// split masters in s1, a chunk of n elements is 2 n bytes of weights, 2 n of low halves, 4 n of them, and 4 n of the
// second moments; each of these parameters is one chunk.
std::vector<float> first_moments(Engine& engine) {
    const TempFolder folder;
    const std::string state = state_bytes(engine, real_files(), folder / "state");
    const TrainedModel& model = engine.setup().model;
    std::vector<float> moments;
    size_t at = 0;
    for (const int param : store_order(model)) {
        const auto count = static_cast<size_t>(model.params[static_cast<size_t>(param)].numel());
        WINDLASS_CHECK(at + 12 * count <= state.size(), "the snapshot ends inside parameter {}", param);
        moments.resize(moments.size() + count);
        std::memcpy(&moments[moments.size() - count], &state[at + 4 * count], 4 * count);
        at += 12 * count;
    }
    EXPECT_EQ(at, state.size());
    return moments;
}

double length(const std::vector<float>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

// Rows split into one micro-batch or two: the same sums in another order. Of the gradients the difference is looked at,
// parameter by parameter, not of their norms.
TEST(MicroBatches, SplitChangesOnlyRounding) {
    for (const DType compute : {DType::f32, DType::bf16}) {
        const Golden golden("llama3");
        const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
        std::vector<double> losses;
        std::vector<std::vector<float>> gradients;
        for (const int micro_count : {1, 2}) {
            const EngineOptions options{.compute = compute,
                                        .method = {.max_grad_norm = 1e30},
                                        .micro_rows = 2 / micro_count,
                                        .micro_count = micro_count};
            const auto engine = make_engine(real_files(), golden.folder, options);
            losses.push_back(train_on(*engine, batch, 1, 1e-3).loss_sum);
            gradients.push_back(first_moments(*engine));
        }
        EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[0]);
        std::vector<float> difference = gradients[0];
        ASSERT_EQ(difference.size(), gradients[1].size());
        for (size_t i = 0; i < difference.size(); ++i) difference[i] -= gradients[1][i];
        EXPECT_GT(length(gradients[0]), 0);
        EXPECT_GT(length(difference), 0) << "nothing was summed otherwise";
        EXPECT_LE(length(difference), 1e-6 * length(gradients[0])) << dtype_name(compute);
        fmt::print("{}: |dg| / |g| = {:.2e}\n", dtype_name(compute), length(difference) / length(gradients[0]));
    }
}

}  // namespace
}  // namespace windlass
