#include "tests/unit/run/placement_fixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/index.h"

namespace windlass {
namespace {

constexpr int64_t kStepsOfARun = 4;
constexpr int64_t kBadStep = 3;  // tried first with a loss that overflows
constexpr double kLearningRate = 1e-2;

void try_bad_step(Engine& engine, const TestBatch& batch, int64_t step) {
    StepInput input = step_input(engine, batch, step, kLearningRate);
    input.params.head.loss_scale = std::numeric_limits<double>::infinity();
    const StepReport report = engine.train_step(train_schedule(engine, batch), input);
    EXPECT_FALSE(report.applied);
    engine.commit(step - 1, run_state_of(step - 1), report);
}

// What uses gradients at once sees too late that they are bad, unless it looked before.
bool survives_bad_gradients(const Engine& engine) {
    const Recipe& recipe = engine.setup().recipe;
    return !recipe.uses_gradients_at_once() || recipe.has_norm_pass() || engine.setup().plan.store;
}

// Without a store, updated at other times than behind backward: on either lane, in memory of the device's own and in
// the host's.
std::vector<Plan> updated_apart_in_memory() {
    std::vector<Plan> plans;
    for (int index = 0; index < 16; ++index) {
        const bool own_memory = index % 2 == 1, beside = index / 2 % 2 == 1;
        const Home home = own_memory && beside ? Home::host : Home::device;
        plans.push_back({.policy = home == Home::host ? "host_stream" : "in_memory",
                         .device = {.own_memory = own_memory},
                         .threads = 1 + index % 3,
                         .host_threads = beside ? 1 + index / 4 % 2 : 0,
                         .order = home == Home::device && index / 4 % 2 == 0 ? MicroOrder::micro_batch_first
                                                                             : MicroOrder::layer_first,
                         .read_ahead = index / 4,
                         .update_ahead = index / 4 % 3,
                         .common = {.weights = home,
                                    .state = home,
                                    .gradients = home,
                                    .block_input = home,
                                    .update = index < 12 ? UpdateTime::in_backward : UpdateTime::next_forward,
                                    .recompute = index % 3 == 2}});
    }
    return plans;
}

void refresh_before(Engine& engine, const std::array<TestBatch, 2>& batches, int64_t step, Outcome& outcome) {
    const StepReport report = refresh_on(engine, batches[0], batches[1], step);
    outcome.losses.push_back(report.loss_sum);
    for (const GroupReport& layer : report.groups) {
        outcome.fits.push_back(layer.figures[0]);
        outcome.fits.push_back(layer.figures[1]);
        outcome.refreshed += layer.figures[4] != 0 ? 1 : 0;
    }
}

}  // namespace

std::vector<Plan> all_plans() {
    std::vector<Plan> plans = updated_apart_in_memory();
    for (const int threads : {1, 2, 3}) {
        for (const bool recompute : {false, true}) {
            for (const MicroOrder order : {MicroOrder::layer_first, MicroOrder::micro_batch_first}) {
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
                       .block_input = index / 4 % 2 == 0 ? far : near,
                       .update = static_cast<UpdateTime>(index / 6 % 3),
                       .recompute = index % 4 == 2};
        plans.push_back(plan);
    }
    // Everything on disk, read ever earlier: over the turn from forward to backward, and past blocks' updates.
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

namespace {

// Each block another way, and each of its saved values.
Plan mixed_values(const Plan& plan, const TrainedModel& model) {
    Plan mixed = mixed_plan(plan, model.blocks.size());
    const OpSize size{.rows = 1, .sequence_length = 24};  // how many saved values there are does not depend on it
    for (size_t block = 0; block < model.blocks.size(); ++block) {
        BlockPlan& each = mixed.blocks[block];
        each.recompute = plan.common.recompute;
        std::vector<uint8_t> trains;
        for (const int param : model.blocks[block].params) trains.push_back(model.training[at(param)].trains);
        const size_t saved = saved_values(*model.blocks[block].program, size, trains).size();
        for (size_t value = 0; value < saved; ++value) {
            const auto choice = static_cast<SaveChoice>((value + block + static_cast<size_t>(plan.threads)) % 4);
            each.saved.push_back(choice == kKeepOnDisk && !plan.store ? SaveChoice::keep : choice);
        }
    }
    return mixed;
}

// Some blocks whole on the device, the others as they were.
Plan partly_on_device(Plan plan, size_t blocks, size_t first) {
    if (plan.blocks.empty()) plan.blocks.assign(blocks, plan.common);
    for (size_t block = first % 3; block < blocks; block += 3) {
        BlockPlan& each = plan.blocks[block];
        each.weights = each.state = each.gradients = Home::device;
    }
    return plan;
}

// Weights stay on the device, of all blocks or of every other one; the rest as it was.
Plan weights_on_device(Plan plan, size_t blocks, bool all) {
    if (plan.blocks.empty()) plan.blocks.assign(blocks, plan.common);
    for (size_t block = 0; block < blocks; block += all ? 1 : 2) plan.blocks[block].weights = Home::device;
    return plan;
}

}  // namespace

std::vector<Plan> with_mixed(std::vector<Plan> plans, const TrainedModel& model) {
    for (size_t index = 0, count = plans.size(); index < count; ++index) {
        // What a device updates in its own memory is all there.
        const bool stays = plans[index].own_memory() && plans[index].common.state == Home::device;
        if (plans[index].order == MicroOrder::layer_first && !stays) plans.push_back(mixed_values(plans[index], model));
    }
    for (size_t index = 0, count = plans.size(); index < count; ++index) {
        const Plan& plan = plans[index];
        if (plan.own_memory() && !plan.store && plan.common.state == Home::host)
            plans.push_back(partly_on_device(plan, model.blocks.size(), index));
    }
    // The host updates what stays on the device: of all blocks of one plan, of some of the next, some of those beside
    // blocks that are whole there.
    for (size_t index = 0, taken = 0, count = plans.size(); index < count; ++index) {
        if (plans[index].own_memory() && plans[index].common.state != Home::device)
            plans.push_back(weights_on_device(plans[index], model.blocks.size(), ++taken % 2 == 1));
    }
    // The same where of the groups of chunks each, or every second or third one, is updated on the device.
    for (size_t index = 0, count = plans.size(); index < count; ++index) {
        Plan plan = plans[index];
        const bool is_resident = plan.own_memory() && !plan.store && plan.common.state == Home::host &&
                                 !plan.blocks.empty() && plan.blocks[0].weights == Home::device;
        plan.device_groups = 1 + static_cast<int>(index % 3);
        if (is_resident) plans.push_back(std::move(plan));
    }
    return plans;
}

Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, EngineOptions options,
                  FileSystem& files, const std::string& folder) {
    options.store_path = folder + "/store.wls";
    const auto engine = make_engine(files, golden.folder, options);
    Outcome outcome;
    for (int64_t step = 1; step <= kStepsOfARun; ++step) {
        const TestBatch& batch = batches[step % 2 == 1 ? 0 : 1];
        if (options.refreshes && step % 2 == 1) refresh_before(*engine, batches, step, outcome);
        if (step == kBadStep && survives_bad_gradients(*engine)) try_bad_step(*engine, batch, step);
        const StepReport report = train_on(*engine, batch, step, kLearningRate);
        EXPECT_TRUE(report.applied);
        outcome.losses.push_back(report.loss_sum);
        outcome.norms.push_back(report.grad_norm);
        outcome.clips.push_back(report.clip_scale);
    }
    outcome.state = state_bytes(*engine, files, folder + "/snapshot.wls");
    return outcome;
}

Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, const EngineOptions& options) {
    FaultFiles image("/image");
    return run_steps(golden, batches, options, image, "/image");
}

void expect_some_clipped(const Outcome& outcome) {
    ASSERT_GT(outcome.state.size(), 0u);
    const auto clipped = std::ranges::count_if(outcome.clips, [](double scale) { return scale < 1; });
    EXPECT_GT(clipped, 0) << fmt::format("{}", fmt::join(outcome.norms, " "));
    EXPECT_LT(clipped, std::ssize(outcome.clips)) << fmt::format("{}", fmt::join(outcome.norms, " "));
}

}  // namespace windlass
