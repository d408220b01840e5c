// What lower writes down: the order of contributions, and how many bytes cross the disk for them.
#include "bench/model_work.h"
#include "schedule/layout.h"
#include "schedule/simulate.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

struct Contribution {
    int block = 0, micro = 0;
    bool first = false;
    bool operator==(const Contribution&) const = default;
};

// By parameter: who adds to its gradient, in the order of the list.
std::vector<std::vector<Contribution>> contributions(const TrainedModel& model, const Schedule& schedule) {
    std::vector<std::vector<Contribution>> by_param(model.params.size());
    for (const Task& task : schedule.tasks) {
        if (task.verb != Verb::run) continue;
        const RunTask& run = schedule.runs[static_cast<size_t>(task.payload)];
        for (size_t index = 0; index < run.gradients.size(); ++index) {
            if (run.gradients[index].buffer == kNoBuffer) continue;
            const int param = model.blocks[static_cast<size_t>(run.block)].params[index];
            by_param[static_cast<size_t>(param)].push_back({run.block, run.micro, run.first_gradient[index] != 0});
        }
    }
    return by_param;
}

// Blocks from the last to the first, in a block micro-batches in ascending order; the first one writes, the others add.
std::vector<std::vector<Contribution>> canonical(const TrainedModel& model, int micro_batches) {
    std::vector<std::vector<Contribution>> by_param(model.params.size());
    for (int block = static_cast<int>(model.blocks.size()) - 1; block >= 0; --block) {
        for (const int param : model.blocks[static_cast<size_t>(block)].params) {
            auto& list = by_param[static_cast<size_t>(param)];
            for (int micro = 0; micro < micro_batches; ++micro) list.push_back({block, micro, list.empty()});
        }
    }
    return by_param;
}

TEST(Lower, GradientsAreAddedInOneOrderUnderEveryPlan) {
    const Recipe recipe = make_recipe("adamw", {});
    for (const char* name : {"llama", "gpt2", "opt_post_norm"}) {  // gpt2: a tied table, added to by head and embedding
        const TrainedModel model = tiny_model(name);
        for (const Plan& plan : plans_on(DeviceKind::cpu)) {
            const ScheduleSet set = checked(model, recipe, numerics_of(DType::f32, 1, 8, 3), plan);
            EXPECT_EQ(contributions(model, set.schedules[0]), canonical(model, 3)) << name << ": " << describe(plan);
        }
    }
}

TEST(Lower, FrozenParametersHaveNoGradientAndNoUpdate) {
    TrainedModel model = tiny_model("llama");
    for (size_t param = 0; param < model.params.size(); ++param)
        model.training[param].trains = model.params[param].name.find("self_attn") != std::string::npos;
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 8, 2), plan);
        const auto lists = contributions(model, set.schedules[0]);
        for (size_t param = 0; param < lists.size(); ++param)
            EXPECT_EQ(lists[param].size(), model.training[param].trains ? 2u : 0u) << model.params[param].name;
        for (const ParamTask& update : updates_of(set.schedules[0])) {
            for (const ParamChunk& chunk : update.chunks)
                EXPECT_TRUE(model.training[static_cast<size_t>(chunk.param)].trains);
        }
    }
}

// Every chunk is updated once: behind the norm, on a guess, or with what the step before found.
TEST(Lower, EveryChunkIsUpdatedOnce) {
    const TrainedModel model = tiny_model("qwen2");
    std::vector<int64_t> all;
    for (const Param param : model.all_params()) all.push_back(param.numel());
    const std::vector<int64_t> none(all.size(), 0);
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 8, 2), plan);
        const UpdateCounts counts = updated_by(set.schedules[0], model);
        const UpdateTime time = plan.common.update;
        EXPECT_EQ(counts.known, time == UpdateTime::after_backward ? all : none) << describe(plan);
        EXPECT_EQ(counts.speculative, time == UpdateTime::in_backward ? all : none) << describe(plan);
        EXPECT_EQ(counts.deferred, time == UpdateTime::next_forward ? all : none) << describe(plan);
        EXPECT_EQ(set.find("redo") != nullptr, time == UpdateTime::in_backward);
        EXPECT_EQ(set.find("flush") != nullptr, time == UpdateTime::next_forward);
        std::vector<int> summed;
        const std::vector<ParamTask> sums = params_of(set.schedules[0], is_sum_of_squares);
        for (const ParamTask& task : sums)
            for (const ParamChunk& chunk : task.chunks) summed.push_back(chunk.param);
        std::ranges::sort(summed);
        for (size_t i = 0; i < summed.size(); ++i) EXPECT_EQ(summed[i], static_cast<int>(i));
        EXPECT_EQ(summed.size(), model.params.size());
        EXPECT_LE(sums.size(), model.blocks.size());
    }
}

// Plans that guess updates and have no store to go back to.
std::vector<Plan> guessing_in_memory(DeviceKind device) {
    std::vector<Plan> plans;
    for (const Plan& plan : plans_on(device)) {
        if (!plan.store && plan.any(UpdateTime::in_backward)) plans.push_back(plan);
    }
    return plans;
}

// What a guess overwrites is kept in the memory that it is updated in, to the byte: halves and state of every trained
// element once, each section whole blocks of the disk. What is done again starts from there.
TEST(Lower, AGuessWithoutAStoreKeepsWhatItOverwrites) {
    const TrainedModel model = tiny_model("gpt2");
    for (const StateFormat format : kStateFormats) {
        const Recipe recipe = make_recipe("adamw", {.state_format = format});
        int64_t bytes = 0;
        for (const Param param : model.all_params()) bytes += kept_bytes(recipe, param, 0, param.numel());
        const std::vector<Plan> plans = guessing_in_memory(DeviceKind::cpu);
        ASSERT_GE(plans.size(), 8u);
        for (const Plan& plan : plans) {
            SCOPED_TRACE(describe(plan));
            const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2), plan);
            int64_t kept = 0;
            for (const BufferSpec& buffer : set.persistent) {
                if (buffer.tag == MemoryTag::kept) kept += buffer.bytes;
            }
            EXPECT_EQ(kept, bytes);
            const Schedule& redo = *set.find("redo");
            EXPECT_TRUE(redo.moves.empty());
            std::map<std::pair<int, int64_t>, BufferSlice> places;  // by parameter and element
            for (const ParamTask& update : updates_of(set.schedules[0])) {
                EXPECT_TRUE(update.speculative);
                for (const ParamChunk& chunk : update.chunks) {
                    places[{chunk.param, chunk.first}] = chunk.kept;
                    EXPECT_EQ(set.persistent[static_cast<size_t>(chunk.kept.buffer)].tier,
                              set.persistent[static_cast<size_t>(chunk.low.buffer)].tier);
                }
            }
            for (const ParamTask& update : redo.params) {
                EXPECT_FALSE(update.speculative);
                if (update.kernel->is_update) continue;  // after the task that takes back what it had made
                for (const ParamChunk& chunk : update.chunks) {
                    const BufferSlice place = places.at({chunk.param, chunk.first});
                    EXPECT_EQ(chunk.kept.buffer, place.buffer);
                    EXPECT_EQ(chunk.kept.offset, place.offset);
                    places.erase({chunk.param, chunk.first});
                }
            }
            EXPECT_TRUE(places.empty()) << places.size() << " chunks are not done again";
        }
    }
}

TEST(Lower, NothingIsKeptWhereNothingIsGuessedOrAStoreHasIt) {
    const TrainedModel model = tiny_model("llama");
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        if (!plan.store && plan.any(UpdateTime::in_backward)) continue;
        const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 8, 1), plan);
        for (const BufferSpec& buffer : set.persistent) EXPECT_NE(buffer.tag, MemoryTag::kept) << describe(plan);
    }
}

// Both of 2^22 elements and a rest: chunks of one parameter lie one behind the other.
TEST(Lower, KeptVersionsShareNoBytes) {
    const TrainedModel model = model_of(R"({"model_type": "llama", "hidden_size": 4160, "intermediate_size": 11008,
        "num_hidden_layers": 1, "num_attention_heads": 32, "vocab_size": 32001, "max_position_embeddings": 2048})");
    for (const StateFormat format : kStateFormats) {
        const Recipe recipe = make_recipe("adamw", {.state_format = format});
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 512, 1),
                                        {.group_chunks = 4, .common = {.update = UpdateTime::in_backward}});
        std::vector<std::pair<int64_t, int64_t>> ranges;  // begin, bytes
        for (const ParamTask& update : updates_of(set.schedules[0])) {
            for (const ParamChunk& chunk : update.chunks)
                ranges.emplace_back(chunk.kept.offset,
                                    kept_bytes(recipe, model.param(chunk.param), chunk.first, chunk.count));
        }
        std::sort(ranges.begin(), ranges.end());
        int64_t end = 0;
        for (const auto& [begin, bytes] : ranges) {
            EXPECT_EQ(begin, end);
            end += bytes;
        }
        EXPECT_GT(ranges.size(), model.params.size());
        for (const BufferSpec& buffer : set.persistent) {
            if (buffer.tag == MemoryTag::kept) {
                EXPECT_EQ(buffer.bytes, end);
            }
        }
    }
}

// Memory traffic: what is kept is read in one place and written in another.
TEST(Lower, KeepingIsPartOfTheDemand) {
    const TrainedModel model = tiny_model("llama");
    const Recipe recipe = make_recipe("adamw", {});
    int64_t kept = 0;
    for (const Param param : model.all_params()) kept += kept_bytes(recipe, param, 0, param.numel());
    const auto traffic = [&](UpdateTime update, std::string_view name) {
        const ScheduleSet set =
            checked(model, recipe, numerics_of(DType::bf16, 1, 8, 1), {.common = {.update = update}});
        int64_t bytes = 0;
        const Schedule& schedule = *set.find(name);
        for (const Task& task : schedule.tasks)
            bytes += task.verb == Verb::param && schedule.params[at(task.payload)].kernel->has_update_rate
                         ? task.demand.memory_bytes
                         : 0;
        return bytes;
    };
    const int64_t update = model.param_count() * recipe.update()->bytes_per_element;
    EXPECT_EQ(traffic(UpdateTime::after_backward, "train/8"), update);
    EXPECT_EQ(traffic(UpdateTime::in_backward, "train/8"), update + 2 * kept);
    EXPECT_EQ(traffic(UpdateTime::in_backward, "redo"), update + 2 * kept);
}

// Elements that moves of one kind carry in a step.
int64_t moved(const Schedule& schedule, DiskPlace place, bool to_disk) {
    int64_t elements = 0;
    for (const MoveTask& move : schedule.moves) {
        if (move.place != place || move.kind != (to_disk ? MoveKind::disk_write : MoveKind::disk_read)) continue;
        for (const MovePiece& piece : move.pieces) elements += piece.count;
    }
    return elements;
}

// Of N parameters in fp32 masters, in bf16 with everything on disk (Smart-Infinity, section II, counts the same for
// fp16 weights): 2 N bytes of weights for each pass and for the update, which reads and writes 10 N of low halves and
// moments and writes 2 N of weights; gradients go out and come back with 4 N. However many micro-batches there are.
TEST(Lower, VerticalOrderReadsEveryWeightOncePerSweep) {
    const TrainedModel model = tiny_model("llama");  // no tied table: every parameter belongs to one block
    const int64_t n = model.param_count();
    int64_t head = 0;  // it is passed once: its loss and gradient are computed together
    for (const int param : model.blocks.back().params) head += model.params[static_cast<size_t>(param)].numel();
    for (const int micro_batches : {1, 2, 5}) {
        for (const int read_ahead : {0, 1, 3}) {
            const Plan plan{.store = true,
                            .read_ahead = read_ahead,
                            .update_ahead = read_ahead,
                            .common = {.weights = Home::disk, .state = Home::disk, .gradients = Home::disk}};
            const auto set =
                checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 8, micro_batches), plan);
            const Schedule& schedule = set.schedules[0];
            EXPECT_EQ(moved(schedule, DiskPlace::weight, false), (n - head) + n + n);  // forward, backward, update
            EXPECT_EQ(moved(schedule, DiskPlace::weight, true), n);
            for (const bool to_disk : {false, true}) {
                EXPECT_EQ(moved(schedule, DiskPlace::state, to_disk), n);
                EXPECT_EQ(moved(schedule, DiskPlace::gradient, to_disk), n);
            }
            EXPECT_EQ(moved(schedule, DiskPlace::low, false), 0);
        }
    }
}

// The same in bytes, where padding to blocks of the disk is small beside the parameters.
TEST(Lower, DemandsOfALargeModelAreThePublishedOnes) {
    const TrainedModel model = model_of(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 4, "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 2048})");
    const auto n = static_cast<double>(model.param_count());
    const double head = 32000.0 * 4096;
    const Plan plan{.device = {DeviceKind::fake},
                    .store = true,
                    .common = {.weights = Home::disk, .state = Home::disk, .gradients = Home::disk}};
    const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 512, 2), plan);
    const Demand demand = total_demand(set.schedules[0]);
    EXPECT_NEAR(static_cast<double>(demand.disk_read_bytes), 2 * (3 * n - head) + 10 * n + 4 * n, 1e-3 * n);
    EXPECT_NEAR(static_cast<double>(demand.disk_write_bytes), 12 * n + 4 * n, 1e-3 * n);
    // 6 N + attention operations a token, without the table that is only looked up.
    EXPECT_NEAR(demand.model_flops, 1024 * training_flops_per_token(model, 512), 0.01 * demand.model_flops);
}

// Chunks of large parameters lie one behind the other in every state's buffer, whatever its groups are.
TEST(Lower, ChunksShareNoBytesOfTheirState) {
    const TrainedModel model = model_of(R"({"model_type": "llama", "hidden_size": 4160, "intermediate_size": 11008,
        "num_hidden_layers": 1, "num_attention_heads": 32, "vocab_size": 32001, "max_position_embeddings": 2048})");
    for (const StateFormat format : kStateFormats) {
        const Recipe recipe = make_recipe("adamw", {.state_format = format});
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 512, 1), {.policy = "memory"});
        for (size_t s = 0; s < recipe.state.size(); ++s) {
            std::vector<std::pair<int64_t, int64_t>> ranges;  // begin, bytes
            const BufferId buffer = set.ids.params[0].state[s].buffer;
            for (const ParamTask& update : updates_of(set.schedules[0])) {
                for (const ParamChunk& chunk : update.chunks) {
                    ASSERT_EQ(chunk.state[s].buffer, buffer);
                    ranges.emplace_back(chunk.state[s].offset, state_bytes(recipe.state[s], chunk.count));
                }
            }
            std::sort(ranges.begin(), ranges.end());
            int64_t end = 0, padding = 0;
            for (const auto& [begin, bytes] : ranges) {
                EXPECT_GE(begin, end);
                padding += begin - end;
                end = begin + bytes;
            }
            EXPECT_LE(end, set.persistent[static_cast<size_t>(buffer)].bytes);
            EXPECT_LT(padding, std::ssize(model.params) * kParamAlignment);
            EXPECT_GT(ranges.size(), model.params.size());
        }
    }
}

TEST(Lower, HorizontalOrderKeepsTheActivationsOfOneMicroBatch) {
    const TrainedModel model = tiny_model("llama");
    const auto activations = [&](MicroOrder order, int micro_batches) {
        const Plan plan{.order = order};
        const ScheduleSet set =
            checked(model, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 64, micro_batches), plan);
        return set.schedules[0].transient_bytes[slot(TierKind::device)];
    };
    EXPECT_LT(2 * activations(MicroOrder::micro_batch_first, 8), 3 * activations(MicroOrder::micro_batch_first, 1));
    EXPECT_GT(activations(MicroOrder::layer_first, 8), 2 * activations(MicroOrder::layer_first, 1));
}

// Lowers, checks and simulates a step of a model that no memory here would hold, on a device that has none.
void expect_lowers(const TrainedModel& model, const Recipe& recipe, const Plan& plan) {
    const Machine machine{.gemm_bf16_flops = 1e12,
                          .memory_bytes_per_s = 1e11,
                          .disk_read_bytes_per_s = 5e9,
                          .disk_write_bytes_per_s = 3e9};
    const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 512, 2), plan);
    EXPECT_GT(simulate(set.schedules[0], machine).seconds, 1.0) << describe(plan);
    const BlockPlan& homes = plan.common;
    if (homes.weights != Home::disk) {
        EXPECT_GT(set.memory_bytes(), 2 * model.param_count()) << describe(plan);
    } else if (homes.gradients == Home::disk && homes.state == Home::disk && homes.recompute) {
        EXPECT_LT(set.memory_bytes(), int64_t{72} << 30) << describe(plan);  // a few blocks, not the model
    }
}

using ShapeCase = std::tuple<const char*, const char*>;

class Shapes : public testing::TestWithParam<ShapeCase> {};

TEST_P(Shapes, LowerAndSimulate) {
    if (is_address_sanitized()) GTEST_SKIP() << "large schedules; the small ones are made by the same code";
    const auto& [config, method] = GetParam();
    const Recipe recipe = make_recipe(method, {});
    const TrainedModel model = stored_as(model_of(config), recipe);
    EXPECT_GT(model.param_count(), int64_t{170} * 1000 * 1000 * 1000);
    for (const Plan& plan : plans_for(recipe, model, DeviceKind::fake)) {
        const BlockPlan& homes = plan.common;
        const bool smallest = homes.weights == Home::disk && homes.gradients == Home::disk && homes.recompute &&
                              homes.update == UpdateTime::in_backward;
        const bool many_chunks = recipe.runs(PassKind::backward);  // SlowShapes has the others
        if (!many_chunks || (smallest && plan.read_ahead == 1)) expect_lowers(model, recipe, plan);
    }
}

std::string shape_name(const testing::TestParamInfo<ShapeCase>& info) {
    const auto& [config, method] = info.param;
    return fmt::format("{}_{}", config == kOpt175b ? "opt_175b" : "llama_405b", method);
}

INSTANTIATE_TEST_SUITE_P(Paper, Shapes,
                         testing::Combine(testing::Values(kOpt175b, kLlama405b), testing::ValuesIn(method_names())),
                         shape_name);

class SlowShapes : public Shapes {};

TEST_P(SlowShapes, LowerUnderEveryPlan) {
    const auto& [config, method] = GetParam();
    const TrainedModel model = model_of(config);
    for (const Plan& plan : plans_on(DeviceKind::fake, 1)) expect_lowers(model, make_recipe(method, {}), plan);
}

INSTANTIATE_TEST_SUITE_P(Paper, SlowShapes,
                         testing::Combine(testing::Values(kOpt175b, kLlama405b), testing::Values("adamw")), shape_name);

}  // namespace
}  // namespace windlass
