// A chunk's state lies in memory as it lies in the store, so that a move is one transfer.
#include <gtest/gtest.h>

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
            const std::vector<int64_t> sections = state_sections(recipe, param, count);
            EXPECT_EQ(map.state_extent(chunk, 0).bytes, sections.back());
            EXPECT_LE(sections.back(), state_block_bytes(recipe, param, count));
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

}  // namespace
}  // namespace windlass
