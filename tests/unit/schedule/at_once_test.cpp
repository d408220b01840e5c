// Gradients that are used up behind each block's backward: what they take of memory, links and disks, in closed forms.
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

int64_t pages(int64_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

// Published shapes, of files in bf16, with two layers; a chunk is a small part of most matrices.
TrainedModel two_layers(const Recipe& recipe) {
    std::string config = kLlama405b;
    config.replace(config.find("126,"), 4, "2,");
    TrainedModel model = model_of(config);
    for (ParamSpec& param : model.params) param.file_dtype = DType::bf16;
    return stored_as(std::move(model), recipe);
}

// R and C of matrices, v of vectors: f32 each, from multiples of `unit`.
int64_t adalomo_state(const Param& param, int64_t unit) {
    const auto up = [&](int64_t bytes) { return (bytes + unit - 1) / unit * unit; };
    if (param.spec.shape.rank() == 1) return up(4 * param.numel());
    return up(4 * param.spec.shape[0]) + up(4 * param.spec.shape[1]);
}

int64_t persistent(const ScheduleSet& set, MemoryTag tag) {
    int64_t bytes = 0;
    for (const BufferSpec& buffer : set.persistent) bytes += buffer.tag == tag ? buffer.bytes : 0;
    return bytes;
}

// The most bytes of gradients that are alive at one time.
int64_t most_gradients(const Schedule& schedule) {
    int64_t most = 0;
    for (int task = 0; task < std::ssize(schedule.tasks); ++task) {
        int64_t alive = 0;
        for (const BufferSpec& buffer : schedule.buffers) {
            if (buffer.tag == MemoryTag::gradients && buffer.first <= task && task <= buffer.last)
                alive += buffer.bytes;
        }
        most = std::max(most, alive);
    }
    return most;
}

int64_t block_gradients(const TrainedModel& model, const Block& block) {
    int64_t bytes = 0;
    for (const int param : block.params) bytes += pages(4 * model.param(param).numel());
    return bytes;
}

class AtOnceBytes : public testing::TestWithParam<std::tuple<const char*, bool, double>> {
  protected:
    AtOnceBytes()
        : recipe_(make_recipe(std::get<0>(GetParam()),
                              {.max_grad_norm = std::get<2>(GetParam()), .split_masters = std::get<1>(GetParam())})),
          model_(two_layers(recipe_)) {}
    ScheduleSet lowered(Plan plan) const {
        plan.common.update = UpdateTime::at_once;
        return checked(model_, recipe_, numerics_of(DType::bf16, 1, 8, 2), plan);
    }
    bool is_split() const { return std::get<1>(GetParam()); }
    bool has_state() const { return !recipe_.state.empty(); }
    int backwards() const { return std::get<2>(GetParam()) > 0 ? 2 : 1; }
    // Of a chunk on disk behind its weights.
    int64_t chunk_state(const Param& param, const ChunkSpan& chunk) const {
        const auto line = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
        const int64_t own = has_state() && chunk.first == 0 ? adalomo_state(param, 64) : 0;
        return pages((is_split() ? line(2 * chunk.count) : 0) + own);
    }

    Recipe recipe_;
    TrainedModel model_;
};

// 2 bytes a weight, or 4 of masters, 4 for each row and column, and the gradients of the largest block.
TEST_P(AtOnceBytes, InMemoryAreWeightsStateAndTheGradientsOfOneBlock) {
    const ScheduleSet set = lowered({.policy = "in_memory", .update_ahead = 0});
    int64_t weights = 0, low = 0, state = 0, squares = 0, most = 0;
    for (const Param param : model_.all_params()) {
        weights += pages(2 * param.numel());
        low += is_split() ? pages(2 * param.numel()) : 0;
        state += has_state() ? adalomo_state(param, 4096) : 0;
        squares += squares_bytes(param.numel());
    }
    for (const Block& block : model_.blocks) most = std::max(most, block_gradients(model_, block));
    EXPECT_EQ(persistent(set, MemoryTag::weights), weights);
    EXPECT_EQ(persistent(set, MemoryTag::low_halves), low);
    EXPECT_EQ(persistent(set, MemoryTag::state), state);
    EXPECT_EQ(persistent(set, MemoryTag::gradients), squares);
    EXPECT_EQ(persistent(set, MemoryTag::kept), 0);
    EXPECT_EQ(most_gradients(set.schedules[0]), most);
}

// Streamed: weights go up for each pass, gradients come down once.
TEST_P(AtOnceBytes, OfTheLinkAreWeightsForEachPassAndGradientsOnce) {
    const ScheduleSet set = lowered({.policy = "host_stream",
                                     .device = {.kind = DeviceKind::fake, .own_memory = true},
                                     .host_threads = 1,
                                     .common = {.weights = Home::host, .state = Home::host, .gradients = Home::host}});
    int64_t up = 0, down = 0;
    for (size_t block = 0; block < model_.blocks.size(); ++block) {
        const int passes =
            backwards() + (block + 1 < model_.blocks.size() ? 1 : 0);  // the head has no forward of its own
        for (const int param : model_.blocks[block].params) {
            up += passes * pages(2 * model_.param(param).numel());
            down += pages(4 * model_.param(param).numel());
        }
    }
    const Demand demand = total_demand(set.schedules[0]);
    EXPECT_EQ(demand.up_bytes, up + 2 * kTokenBytes * 8);
    EXPECT_EQ(demand.down_bytes, down);
    EXPECT_EQ(persistent(set, MemoryTag::gradients) > 0, true);
}

// On disk: what a pass and the update want is read, what the update changes is written, whole pages of it.
TEST_P(AtOnceBytes, OfTheDiskAreWeightsForEachPassAndWhatIsUpdatedOnce) {
    const ScheduleSet set =
        lowered({.policy = "three_tier", .store = true, .common = {.weights = Home::disk, .state = Home::disk}});
    int64_t read = 0, written = 0;
    for (size_t block = 0; block < model_.blocks.size(); ++block) {
        const int passes = backwards() + (block + 1 < model_.blocks.size() ? 1 : 0);
        for (const int index : model_.blocks[block].params) {
            const Param param = model_.param(index);
            for (const ChunkSpan& chunk : chunks_of(model_, index)) {
                read += passes * pages(2 * chunk.count) + chunk_state(param, chunk);
                written += pages(2 * chunk.count) + chunk_state(param, chunk);
            }
        }
    }
    const Demand demand = total_demand(set.schedules[0]);
    EXPECT_EQ(demand.disk_read_bytes, read);
    EXPECT_EQ(demand.disk_write_bytes, written);
    const StoreMap map(store_layout(model_, recipe_, 2, ""), "store");
    EXPECT_EQ(map.file_bytes() - map.slot(1).offset - map.slot(1).bytes, 2 * written);
}

// State of rows and columns stands in the first chunk, the extents of a store follow each other, and memory has them
// so.
TEST_P(AtOnceBytes, OfAChunkAreThoseOfTheStore) {
    const StoreMap map(store_layout(model_, recipe_, 2, ""), "store");
    EXPECT_EQ(StoreMap::from_text(map.to_text(), "store").file_bytes(), map.file_bytes());
    int64_t chunk = 0;
    for (const int index : store_order(model_)) {
        const Param param = model_.param(index);
        const int64_t begin = map.state_extent(chunk, 1).offset;
        for (const ChunkSpan& span : chunks_of(model_, index)) {
            const Extent state = map.state_extent(chunk++, 1);
            const std::vector<int64_t> sections = state_sections(recipe_, param, span.first, span.count);
            EXPECT_EQ(state.bytes, sections.back());
            EXPECT_EQ(pages(state.bytes), chunk_state(param, span));
            EXPECT_EQ(state.offset - begin, state_block_offset(recipe_, param, span.first));
        }
    }
    EXPECT_EQ(map.chunk_count(), chunk);
}

// Its kernel sees all of a parameter at once, and works in memory that the schedule has.
TEST_P(AtOnceBytes, AnUpdateTakesWholeParametersWhereItMust) {
    const ScheduleSet set = lowered({.policy = "in_memory", .group_chunks = 4});
    for (const ParamTask& update : updates_of(set.schedules[0])) {
        EXPECT_EQ(update.work.buffer != kNoBuffer, recipe_.updates_whole_parameters());
        std::vector<int64_t> elements(model_.params.size());
        for (const ParamChunk& chunk : update.chunks) elements[at(chunk.param)] += chunk.count;
        for (size_t param = 0; recipe_.updates_whole_parameters() && param < elements.size(); ++param)
            EXPECT_TRUE(elements[param] == 0 || elements[param] == model_.params[param].numel());
        if (!recipe_.updates_whole_parameters()) {
            EXPECT_LE(update.chunks.size(), 4u);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, AtOnceBytes,
                         testing::Combine(testing::Values("lomo", "adalomo"), testing::Bool(),
                                          testing::Values(0.0, 1.0)));

TEST(AtOnce, APlanSaysThatGradientsWaitNowhere) {
    const Plan plan{.policy = "in_memory", .common = {.update = UpdateTime::at_once}};
    EXPECT_EQ(describe_placement(plan), "weights in memory, state in memory, gradients of a block at a time");
}

// A table that two blocks use waits for the first block, beside that one's other gradients and the one before.
TEST(AtOnce, ATiedTablesGradientWaitsForItsLastUser) {
    const Recipe recipe = make_recipe("lomo", {.max_grad_norm = 0});
    const TrainedModel model = stored_as(tiny_model("gpt2"), recipe);
    const ScheduleSet set =
        checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2),
                {.policy = "in_memory", .update_ahead = 0, .common = {.update = UpdateTime::at_once}});
    const int table = model.blocks[0].params[0];
    ASSERT_GT(std::ranges::count(model.blocks.back().params, table), 0);
    const int64_t waiting = pages(4 * model.param(table).numel());
    int64_t most = block_gradients(model, model.blocks[0]);
    for (size_t block = 1; block < model.blocks.size(); ++block) {
        const bool uses_it = std::ranges::count(model.blocks[block].params, table) > 0;
        most = std::max(most, block_gradients(model, model.blocks[block]) + (uses_it ? 0 : waiting));
    }
    EXPECT_EQ(most_gradients(set.schedules[0]), most);
    // And it is updated once, behind both.
    int updates = 0;
    for (const ParamTask& update : updates_of(set.schedules[0]))
        updates += static_cast<int>(std::ranges::count(update.chunks, table, &ParamChunk::param));
    EXPECT_EQ(updates, 1);
}

}  // namespace
}  // namespace windlass
