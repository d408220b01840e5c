// A chunk's state lies in memory as it lies in the store, so that a move is one transfer.
#include <gtest/gtest.h>

#include "method/param_groups.h"
#include "model/sublayers.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

void expect_as_in_the_store(const TrainedModel& model, const Recipe& recipe) {
    const StoreMap map(store_layout(model, recipe, 2, ""), "store");
    const std::vector<int> order = store_order(model);
    int64_t chunk = 0;
    for (const int index : order) {
        const Param param = model.param(index);
        SCOPED_TRACE(param.spec.name);
        const bool is_split = param.storage.store == StoreType::split;
        for (int64_t first = 0; first < param.numel(); first += kChunkElements, ++chunk) {
            const int64_t count = std::min(kChunkElements, param.numel() - first);
            const std::vector<int64_t> sections = state_sections(recipe, param, first, count);
            EXPECT_EQ(map.state_extent(chunk, 0).bytes, sections.back());
            EXPECT_LE(sections.back(), state_block_bytes(recipe, param, first, count));
            // The first is of low halves: in the store of a model that has any.
            for (size_t i = is_split ? 0 : 1; param.trains() && i + 1 < sections.size(); ++i)
                EXPECT_EQ(map.section_offset(chunk, static_cast<int64_t>(i) - (is_split ? 0 : 1)), sections[i]) << i;
        }
    }
    EXPECT_EQ(map.chunk_count(), chunk);
    EXPECT_GE(working_store_bytes(model, recipe), map.file_bytes());
}

TEST(Layout, OfStateIsThatOfTheStore) {
    for (const StateFormat format : kStateFormats) {
        const Recipe recipe = make_recipe("adamw", {.state_format = format});
        for (const char* name : {"llama", "gpt2", "opt"}) {
            SCOPED_TRACE(fmt::format("{} {}", name, state_format_name(format)));
            TrainedModel model = stored_as(tiny_model(name), recipe);
            expect_as_in_the_store(model, recipe);
            // An odd half of them is frozen, without low halves.
            for (size_t param = 0; param < model.params.size(); param += 2) model.training[param].trains = false;
            keep_frozen_as(model, DType::bf16);
            expect_as_in_the_store(model, recipe);
        }
    }
}

TEST(Layout, OfForwardOnlyMethodsToo) {
    const Recipe recipe = make_recipe("zeroth_order", {});
    expect_as_in_the_store(stored_as(tiny_model("llama"), recipe), recipe);
}

// ---- what frozen weights take: 2 bytes each in bf16, 34 for 64 of them in nf4, and nothing else ----

// Published shapes, of files in bf16: matrices of layers are frozen in nf4, the table and the head in bf16; norms
// train.
TrainedModel mostly_frozen(const Recipe& recipe) {
    std::string config = kLlama405b;
    config.replace(config.find("126,"), 4, "3,");
    TrainedModel model = model_of(config);
    std::vector<ParamGroup> groups = {{.match = "*proj*", .train = false},
                                      {.match = "*embed*", .train = false},
                                      {.match = "lm_head*", .train = false}};
    for (ParamSpec& param : model.params) param.file_dtype = DType::bf16;
    apply_param_groups(groups, "groups", model);
    set_store(model, recipe.store);
    keep_frozen_as(model, DType::bf16);
    keep_in_4_bits(model);
    return recipe.probes() ? in_sublayers(std::move(model)) : model;
}

int64_t round_to_page(int64_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

// Closed forms, of shapes alone.
int64_t frozen_bytes(const Param& param, int64_t count) {
    return param.spec.layer >= 0 ? (count + 63) / 64 * 34 : count * 2;
}

TEST(FrozenBytes, AreThoseOfTheWeightsInStores) {
    for (const char* method : {"adamw", "zeroth_order", "forward_gradient"}) {
        const Recipe recipe = make_recipe(method, {});
        const TrainedModel model = mostly_frozen(recipe);
        // A trained weight: two halves and two moments in f32, or one number of bf16.
        const int64_t trained_state = recipe.probes() ? 0 : 2 + 4 + 4;
        for (const int versions : {1, 2}) {
            SCOPED_TRACE(fmt::format("{}, {} versions", method, versions));
            const StoreLayout layout = store_layout(model, recipe, versions, "");
            const StoreMap map(layout, "store");
            int64_t bytes = map.slot(1).offset + map.slot(1).bytes;
            for (int index = 0; index < model.param_size(); ++index) {
                const Param param = model.param(index);
                if (!param.trains() && versions == 1) continue;
                for (const ChunkSpan& chunk : chunks_of(model, index)) {
                    bytes +=
                        param.trains()
                            ? versions * (round_to_page(chunk.count * 2) + round_to_page(chunk.count * trained_state))
                            : round_to_page(frozen_bytes(param, chunk.count));
                }
            }
            EXPECT_EQ(map.file_bytes(), bytes);
            for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
                const ChunkRef ref = map.chunk(chunk);
                const Param param = model.param(stored_params(model, versions)[static_cast<size_t>(ref.param)]);
                if (param.trains()) continue;
                EXPECT_EQ(map.weight_extent(chunk, 0).bytes, frozen_bytes(param, ref.count));
                EXPECT_EQ(map.state_extent(chunk, 0).bytes, 0);
                EXPECT_TRUE(map.is_written_once(chunk));
            }
        }
    }
}

TEST(FrozenBytes, AreThoseOfTheWeightsInMemory) {
    for (const char* method : {"adamw", "zeroth_order"}) {
        const Recipe recipe = make_recipe(method, {});
        const TrainedModel model = mostly_frozen(recipe);
        const Plan plan{.policy = "in_memory", .common = {.update = usual_update(recipe)}};
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 1), plan);
        int64_t weights = 0, low = 0, state = 0, gradients = 0;
        for (const Param param : model.all_params()) {
            if (!param.trains()) {
                weights += round_to_page(frozen_bytes(param, param.numel()));
                continue;
            }
            weights += round_to_page(param.numel() * 2);
            if (recipe.probes()) continue;
            low += round_to_page(param.numel() * 2);
            state += 2 * round_to_page(param.numel() * 4);
            gradients += round_to_page(param.numel() * 4) + squares_bytes(param.numel());
        }
        const auto held = [&](MemoryTag tag) {
            int64_t bytes = 0;
            for (const BufferSpec& buffer : set.persistent) bytes += buffer.tag == tag ? buffer.bytes : 0;
            return bytes;
        };
        EXPECT_EQ(held(MemoryTag::weights), weights) << method;
        EXPECT_EQ(held(MemoryTag::low_halves), low) << method;
        EXPECT_EQ(held(MemoryTag::state), state) << method;
        EXPECT_EQ(held(MemoryTag::gradients), gradients) << method;
        EXPECT_EQ(held(MemoryTag::kept), 0) << method;
    }
}

// A step with everything on disk writes what is trained, whole pages of it, and gradients where they spill.
TEST(FrozenBytes, AreNeverWritten) {
    for (const char* method : {"adamw", "zeroth_order"}) {
        const Recipe recipe = make_recipe(method, {});
        const TrainedModel model = mostly_frozen(recipe);
        const Plan plan{
            .policy = "three_tier",
            .store = true,
            .common = {
                .weights = Home::disk, .state = Home::disk, .gradients = Home::disk, .update = usual_update(recipe)}};
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 1), plan);
        int64_t written = 0, read_of_frozen = 0;
        for (const Param param : model.all_params()) {
            if (!param.trains()) continue;
            written += round_to_page(param.numel() * 2);
            if (!recipe.probes()) written += round_to_page(param.numel() * 10) + round_to_page(param.numel() * 4);
        }
        EXPECT_EQ(total_demand(set.schedules[0]).disk_write_bytes, written) << method;
        for (const MoveTask& move : set.schedules[0].moves) {
            for (const MovePiece& piece : move.pieces) {
                if (move.place == DiskPlace::activation || model.param(piece.param).trains()) continue;
                EXPECT_EQ(move.kind == MoveKind::disk_write || move.kind == MoveKind::down, false);
                if (move.kind == MoveKind::disk_read) read_of_frozen += piece.count > 0 ? 1 : 0;
            }
        }
        EXPECT_GT(read_of_frozen, 0) << method;
    }
}

}  // namespace
}  // namespace windlass
