// Steps that never go backward: what arrives, what is updated, what is written back, and how often it crosses each
// link.
#include <algorithm>

#include "base/index.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/ordering.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

class ProbedStep : public testing::TestWithParam<std::tuple<const char*, const char*, DType>> {
  protected:
    ProbedStep() : files_(std::get<2>(GetParam())) {}
    TrainedModel model_of(const Recipe& recipe) const {
        TrainedModel model = tiny_model(std::get<1>(GetParam()));
        for (ParamSpec& param : model.params) param.file_dtype = files_;
        return stored_as(std::move(model), recipe);
    }
    Recipe recipe_of(int directions) const { return make_recipe(std::get<0>(GetParam()), {.directions = directions}); }
    // Calls `body` with the training schedule of every plan, of steps of one direction and of several.
    void for_each_plan(
        const std::function<void(const TrainedModel&, const Recipe&, const ScheduleSet&, const Plan&)>& body) {
        for (const int directions : {1, 3}) {
            const Recipe recipe = recipe_of(directions);
            const TrainedModel model = model_of(recipe);
            for (const Plan& plan : forward_only_plans(DeviceKind::fake, model.blocks.size())) {
                SCOPED_TRACE(fmt::format("{} directions, {}{}", directions, describe(plan),
                                         plan.blocks.empty() ? "" : ", mixed"));
                body(model, recipe, checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2), plan), plan);
                if (HasFailure()) return;
            }
        }
    }
    DType files_;
};

const MoveTask* move_of(const Schedule& schedule, const Task& task) {
    return task.verb == Verb::move ? &schedule.moves[at(task.payload)] : nullptr;
}

TEST_P(ProbedStep, EveryBlockArrivesOnceForEachSweep) {
    for_each_plan([](const TrainedModel& model, const Recipe& recipe, const ScheduleSet& set, const Plan&) {
        std::vector<std::pair<int, int>> arrived;
        for (const ParamTask& task : arrivals_of(set.schedules[0])) arrived.emplace_back(task.block, task.pass);
        std::vector<std::pair<int, int>> expected;
        for (int block = 0; block < std::ssize(model.blocks); ++block)
            for (int pass = 0; pass < std::ssize(recipe.passes); ++pass) expected.emplace_back(block, pass);
        EXPECT_EQ(arrived, expected);
    });
}

// A tied head's table is updated at its home, the embedding, and there only; in a flush as well.
TEST_P(ProbedStep, EveryParameterIsUpdatedOnceAtItsHome) {
    for_each_plan([](const TrainedModel& model, const Recipe&, const ScheduleSet& set, const Plan&) {
        ASSERT_NE(set.find("flush"), nullptr);
        for (const Schedule* schedule : {&set.schedules[0], set.find("flush")}) {
            std::vector<int> updates(model.params.size());
            for (const ParamTask& task : arrivals_of(*schedule)) {
                for (const ParamChunk& each : task.chunks) {
                    if (!each.updates) continue;
                    EXPECT_EQ(task.block, model.params[at(each.param)].block);
                    EXPECT_LE(task.pass, 0);
                    ++updates[at(each.param)];
                }
            }
            EXPECT_EQ(updates, std::vector<int>(model.params.size(), 1)) << schedule->name;
        }
    });
}

// Behind its update and at once: before the block's first forward.
TEST_P(ProbedStep, EveryParameterGoesHomeOnce) {
    for_each_plan([](const TrainedModel& model, const Recipe&, const ScheduleSet& set, const Plan& plan) {
        for (const Schedule* schedule : {&set.schedules[0], set.find("flush")}) {
            std::vector<int64_t> down(model.params.size()), written(model.params.size());
            std::vector<bool> updated(model.params.size());
            for (const Task& task : schedule->tasks) {
                if (const ParamTask* arrival = param_of(*schedule, task, is_arrival)) {
                    for (const ParamChunk& each : arrival->chunks)
                        if (each.updates) updated[at(each.param)] = true;
                }
                if (task.verb == Verb::run) {
                    for (const int param : model.blocks[at(schedule->runs[at(task.payload)].block)].params)
                        EXPECT_EQ(written[at(param)], plan.store ? model.params[at(param)].numel() : 0);
                }
                const MoveTask* const move = move_of(*schedule, task);
                if (move == nullptr || (move->kind != MoveKind::down && move->kind != MoveKind::disk_write)) continue;
                EXPECT_EQ(task.when, When::write_back);
                for (const MovePiece& piece : move->pieces) {
                    EXPECT_TRUE(updated[at(piece.param)]);
                    if (move->kind == MoveKind::down) ++down[at(piece.param)];
                    if (move->kind == MoveKind::disk_write) written[at(piece.param)] += piece.count;
                }
            }
            for (size_t param = 0; param < model.params.size(); ++param) {
                const Home home = plan.of(model.params[param].block).weights;
                EXPECT_EQ(down[param], plan.own_memory() && home != Home::device ? 1 : 0) << model.params[param].name;
                EXPECT_EQ(written[param], plan.store ? model.params[param].numel() : 0) << model.params[param].name;
            }
        }
    });
}

TEST_P(ProbedStep, TheMarkWaitsForAllThatWasHeld) {
    for_each_plan([](const TrainedModel&, const Recipe&, const ScheduleSet& set, const Plan&) {
        for (const Schedule* schedule : {&set.schedules[0], set.find("flush")}) {
            const TaskOrder order(*schedule);
            std::vector<size_t> marks, deferred;
            for (size_t index = 0; index < schedule->tasks.size(); ++index) {
                const Task& task = schedule->tasks[index];
                const ParamTask* const arrival = param_of(*schedule, task, is_arrival);
                const bool updates = arrival != nullptr && std::ranges::any_of(arrival->chunks, &ParamChunk::updates);
                if (is_mark(*schedule, task))
                    marks.push_back(index);
                else if (task.when != When::always || updates)
                    deferred.push_back(index);
            }
            ASSERT_EQ(marks.size(), 1u);
            EXPECT_EQ(schedule->tasks[marks[0]].when, When::deferred);
            for (const size_t index : deferred) EXPECT_TRUE(is_before(*schedule, order, index, marks[0])) << index;
        }
    });
}

TEST_P(ProbedStep, AFlushComputesNothing) {
    for_each_plan([](const TrainedModel&, const Recipe&, const ScheduleSet& set, const Plan&) {
        const Schedule& flush = *set.find("flush");
        EXPECT_TRUE(flush.runs.empty());
        EXPECT_TRUE(std::ranges::none_of(flush.tasks, [&](const Task& task) { return is_decision(flush, task); }));
        for (const ParamTask& task : arrivals_of(flush)) {
            EXPECT_EQ(task.pass, -1);
            for (const ParamChunk& each : task.chunks) EXPECT_EQ(each.probes.buffer, kNoBuffer);
        }
    });
}

// Forward only: nothing is saved, there are no gradients, no state and no low halves.
TEST_P(ProbedStep, KeepsNothingForAReverseSweep) {
    for_each_plan([](const TrainedModel& model, const Recipe& recipe, const ScheduleSet& set, const Plan&) {
        const Schedule& schedule = set.schedules[0];
        size_t streams = 0, results = 0;
        for (const RecipePass& pass : recipe.passes) {
            const bool tangent = pass.kind == PassKind::tangent;
            streams += tangent ? 1 : at(pass.k);
            results += at(pass.k + (tangent ? 1 : 0));
        }
        EXPECT_EQ(schedule.runs.size(), streams * 2 * model.blocks.size());
        EXPECT_EQ(schedule.outputs.size(), results * 2);
        EXPECT_TRUE(updates_of(schedule).empty());
        for (const RunTask& run : schedule.runs) {
            EXPECT_EQ(schedule.segments[at(run.segment)].region_bytes(Region::saved), 0);
            EXPECT_TRUE(run.gradients.empty());
            for (const WeightUse& each : run.weights) EXPECT_EQ(each.low.buffer, kNoBuffer);
        }
        for (const ParamPlace& place : set.ids.params) {
            EXPECT_EQ(place.low.buffer, kNoBuffer);
            EXPECT_EQ(place.gradient.buffer, kNoBuffer);
            EXPECT_EQ(place.chunks.buffer, kNoBuffer);
            EXPECT_TRUE(place.state.empty());
        }
    });
}

// Bytes of weights by link, as the homes alone say. Blocks share a tied table: it comes to each of them.
Demand expected_traffic(const TrainedModel& model, const Plan& plan) {
    Demand traffic;
    for (size_t block = 0; block < model.blocks.size(); ++block) {
        for (const int param : model.blocks[block].params) {
            const Param each = model.param(param);
            const Home home = plan.of(each.spec.block).weights;
            const bool is_home = at(each.spec.block) == block, copied = plan.own_memory() && home != Home::device;
            const int64_t bytes = aligned_weight_bytes(each, each.numel());
            if (home == Home::disk) traffic.disk_read_bytes += bytes;
            if (copied) traffic.up_bytes += bytes;
            if (copied && is_home) traffic.down_bytes += bytes;
            if (plan.store && is_home) traffic.disk_write_bytes += bytes;
        }
    }
    return traffic;
}

TEST_P(ProbedStep, WeightsCrossEachLinkOnceHoweverManyDirections) {
    for (const int directions : {1, 2, 16}) {
        const Recipe recipe = recipe_of(directions);
        const TrainedModel model = model_of(recipe);
        for (const Plan& plan : forward_only_plans(DeviceKind::fake, model.blocks.size())) {
            for (const int micro_batches : {1, 4}) {
                const ScheduleSet set = checked(model, recipe, numerics_of(DType::f32, 1, 8, micro_batches), plan);
                const Demand found = total_demand(set.schedules[0]), expected = expected_traffic(model, plan);
                EXPECT_EQ(found.disk_read_bytes, expected.disk_read_bytes) << describe(plan);
                EXPECT_EQ(found.disk_write_bytes, expected.disk_write_bytes) << describe(plan);
                const int64_t tokens = plan.own_memory() ? kTokenBytes * 8 * micro_batches : 0;  // not by direction
                EXPECT_EQ(found.up_bytes, expected.up_bytes + tokens) << describe(plan);
                EXPECT_EQ(found.down_bytes, expected.down_bytes) << describe(plan);
            }
        }
    }
}

// What a pass leaves behind is the result of its point.
TEST_P(ProbedStep, EveryPassKnowsItsPoint) {
    if (std::get<0>(GetParam()) != std::string_view("zeroth_order")) GTEST_SKIP() << "tangents share a pass";
    for_each_plan([](const TrainedModel& model, const Recipe&, const ScheduleSet& set, const Plan&) {
        const Schedule& schedule = set.schedules[0];
        size_t seen = 0;
        for (const RunTask& run : schedule.runs) {
            if (run.block + 1 != std::ssize(model.blocks)) continue;
            const BufferSlice& result = schedule.outputs[at(run.probe_index * schedule.micro_batches + run.micro)];
            EXPECT_EQ(run.regions[static_cast<size_t>(Region::output)].buffer, result.buffer);
            ++seen;
        }
        EXPECT_EQ(seen, schedule.outputs.size());
    });
}

// Where updates are written back each fourth step the schedule is the same but for its bytes a step, and for the head,
// which fetches a tied table once more and updates it too.
TEST_P(ProbedStep, UpdatesGoHomeInSomeStepsOnly) {
    for_each_plan([&](const TrainedModel& model, const Recipe& recipe, const ScheduleSet& each, const Plan& plan) {
        Plan rarely = plan;
        rarely.writeback_steps = 4;
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2), rarely);
        const Schedule &schedule = set.schedules[0], &was = each.schedules[0];
        ASSERT_EQ(schedule.tasks.size(), was.tasks.size());
        const Demand found = total_demand(schedule), before = total_demand(was);
        EXPECT_EQ(found.disk_write_bytes, before.disk_write_bytes / 4);
        EXPECT_EQ(found.down_bytes, before.down_bytes / 4);
        EXPECT_EQ(found.up_bytes, before.up_bytes);
        EXPECT_EQ(found.disk_read_bytes, before.disk_read_bytes);
        EXPECT_EQ(set.find("flush")->writeback_steps, 1);
        for (const ParamTask& task : arrivals_of(schedule)) {
            for (const ParamChunk& param : task.chunks) {
                const Param each = model.param(param.param);
                const bool lives_here = plan.of(each.spec.block).weights == Home::device;
                const bool is_first = task.pass == 0, is_home = each.spec.block == task.block;
                const Applies lacks = lives_here ? Applies::last : Applies::deferred;
                EXPECT_EQ(param.writing_back, is_first && is_home ? lacks : Applies::none) << each.spec.name;
                const bool again = is_first && !is_home && !lives_here;
                EXPECT_EQ(param.between, again ? Applies::deferred : param.writing_back) << each.spec.name;
            }
        }
    });
}

// ---- directions as factors ----

// rank (rows + cols) numbers of f32 for each direction over a matrix, and all of it, in the type that is computed with,
// over anything else.
TEST(Factors, TakeARowAndAColumnForEachRank) {
    constexpr int64_t kRank = 3, kDirections = 5;
    const Recipe recipe =
        make_recipe("forward_gradient", {.directions = kDirections, .noise = NoiseKind::low_rank, .noise_rank = kRank});
    const TrainedModel model = stored_as(tiny_model("gpt2"), recipe);
    const Plan plan{
        .policy = "test", .device = {.kind = DeviceKind::fake}, .common = {.update = UpdateTime::next_forward}};
    const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 1), plan);
    const Schedule& schedule = set.schedules[0];
    for (const ParamTask& task : arrivals_of(schedule)) {
        int64_t bytes = 0;
        for (const ParamChunk& each : task.chunks) {
            const Param param = model.param(each.param);
            const Shape& shape = param.spec.shape;
            const int64_t one = shape.rank() == 2 ? std::min({kRank, shape[0], shape[1]}) * (shape[0] + shape[1]) * 4
                                                  : param.numel() * 2;
            bytes += aligned_bytes(kDirections * one, 1);
            if (each.plain.buffer != kNoBuffer) bytes += aligned_bytes(param.numel(), 2);
        }
        EXPECT_EQ(set.buffer(schedule, task.chunks[0].probes.buffer).bytes, bytes);
    }
    for (const RunTask& run : schedule.runs) EXPECT_EQ(schedule.segments[at(run.segment)].size.rank, kRank);
    const Recipe full = make_recipe("forward_gradient", {.directions = kDirections});
    const ScheduleSet whole = checked(model, full, numerics_of(DType::bf16, 1, 8, 1), plan);
    EXPECT_LT(set.arena_bytes[0], whole.arena_bytes[0]);
    EXPECT_LT(total_demand(schedule).flops, total_demand(whole.schedules[0]).flops);
}

INSTANTIATE_TEST_SUITE_P(Methods, ProbedStep,
                         testing::Combine(testing::Values("zeroth_order", "forward_gradient"),
                                          testing::Values("llama", "gpt2"), testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_{}_{}", std::get<0>(info.param), std::get<1>(info.param),
                                                dtype_name(std::get<2>(info.param)));
                         });

// ---- what check refuses ----

// A step of a model with a tied table, not yet checked.
ScheduleSet tied_step(bool own_memory, Home home) {
    const Recipe recipe = make_recipe("zeroth_order", {});
    const TrainedModel model = stored_as(tiny_model("gpt2"), recipe);
    const Plan plan{.policy = "test",
                    .device = {.kind = DeviceKind::fake, .own_memory = own_memory},
                    .store = home == Home::disk,
                    .read_ahead = 0,
                    .common = {.weights = home, .state = home, .update = UpdateTime::next_forward}};
    return lower(model, recipe, numerics_of(DType::f32, 1, 8, 1), plan,
                 {train_request(numerics_of(DType::f32, 1, 8, 1))});
}

// The last move of this kind goes in front of the first one of that: the head takes its table before it is home.
void hurry(Schedule& schedule, MoveKind late, MoveKind early) {
    const auto is = [&](MoveKind kind) {
        return [&schedule, kind](const Task& task) {
            const MoveTask* const move = move_of(schedule, task);
            return move != nullptr && move->kind == kind;
        };
    };
    const auto first = std::ranges::find_if(schedule.tasks, is(early));
    const auto last = std::find_if(schedule.tasks.rbegin(), schedule.tasks.rend(), is(late)).base() - 1;
    ASSERT_LT(first, last);
    std::rotate(first, last, last + 1);
}

TEST(ProbedStepDeath, RefusesAReadBeforeTheWriteOfItsUpdate) {
    ScheduleSet set = tied_step(false, Home::disk);
    hurry(set.schedules[0], MoveKind::disk_read, MoveKind::disk_write);
    EXPECT_DEATH(check(set), "is read before its update");
}

TEST(ProbedStepDeath, RefusesACopyUpBeforeTheOneDownOfItsUpdate) {
    ScheduleSet set = tied_step(true, Home::host);
    hurry(set.schedules[0], MoveKind::up, MoveKind::down);
    EXPECT_DEATH(check(set), "goes up before its update");
}

TEST(ProbedStepDeath, RefusesASecondUpdate) {
    ScheduleSet set = tied_step(false, Home::device);
    for (ParamTask& task : set.schedules[0].params)
        for (ParamChunk& each : task.chunks) each.updates = true;
    EXPECT_DEATH(check(set), "is updated after it was read");
}

}  // namespace
}  // namespace windlass
