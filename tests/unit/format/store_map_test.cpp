// Where everything in a store lies.
#include "format/store_map.h"

#include "base/math.h"
#include "format/store.h"
#include "tests/unit/format/small_layout.h"

namespace windlass {
namespace {

TEST(StoreMap, ExtentsAreAlignedAndDisjointAndFillTheFile) {
    const StoreMap map(small_layout(), "store");
    EXPECT_EQ(map.chunk_count(), 3 + 1 + 2 + 2);
    std::vector<Extent> extents = {{0, StoreMap::kHeaderBytes + std::ssize(map.to_text())}, map.slot(0), map.slot(1)};
    for (int version = 0; version < 2; ++version) {
        for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk)
            extents.push_back(map.weight_extent(chunk, version));
        for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) extents.push_back(map.state_extent(chunk, version));
    }
    int64_t end = 0;
    for (const Extent& extent : extents) {
        EXPECT_EQ(extent.offset, end);  // in this order, without a hole
        end = extent.offset + round_up(extent.bytes, StoreMap::kAlignment);
    }
    EXPECT_EQ(end, map.file_bytes());
    EXPECT_EQ(Store::file_bytes(small_layout()), map.file_bytes());
}

TEST(StoreMap, ChunksAndSectionsFollowTheParameters) {
    const StoreMap map(small_layout(), "store");
    EXPECT_EQ(map.chunk(2).param, 0);
    EXPECT_EQ(map.chunk(2).first, 512);
    EXPECT_EQ(map.chunk(2).count, 188);
    EXPECT_EQ(map.chunk(3).param, 1);
    EXPECT_EQ(map.chunk(7).count, 1);
    EXPECT_EQ(map.first_chunk(3), 6);
    EXPECT_EQ(map.weight_extent(2, 0).bytes, 188 * 2);
    EXPECT_EQ(map.section_offset(2, 1), 384);  // 188 * 2 bytes, filled up to 64
    EXPECT_EQ(map.section_offset(2, 2), 384 + 768);
    EXPECT_EQ(map.state_extent(2, 0).bytes, 384 + 768 + 768);
}

TEST(StoreMap, SectionsMayHoldBytesPerGroupOfElements) {
    StoreLayout layout = small_layout();
    layout.sections = {{"m8", 1}, {"scale", 4, 256}};
    const StoreMap map(layout, "store");
    EXPECT_EQ(map.state_extent(0, 0).bytes, 256 + 64);
    EXPECT_EQ(map.section_offset(0, 1), 256);
}

TEST(StoreMap, ParametersMayHaveTheFirstSectionsOnly) {
    StoreLayout layout = small_layout();
    layout.params[0].sections = 1;
    layout.params[1].sections = 0;
    const StoreMap map(layout, "store"), again = StoreMap::from_text(map.to_text(), "store");
    EXPECT_EQ(map.state_extent(2, 0).bytes, 384);  // 188 * 2 bytes, filled up to 64
    EXPECT_EQ(map.state_extent(3, 1).bytes, 0);
    EXPECT_EQ(map.state_extent(4, 0).bytes, StoreMap(small_layout(), "store").state_extent(4, 0).bytes);
    int64_t end = map.state_extent(0, 0).offset;
    for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
        const Extent extent = map.state_extent(chunk, 0);
        EXPECT_EQ(extent.offset, end);
        EXPECT_EQ(again.state_extent(chunk, 0).offset, extent.offset);
        end = extent.offset + round_up(extent.bytes, StoreMap::kAlignment);
    }
    EXPECT_EQ(again.layout().params[0].sections, 1);
    EXPECT_EQ(again.file_bytes(), map.file_bytes());
    EXPECT_LT(map.file_bytes(), Store::file_bytes(small_layout()));
    for (const int64_t sections : {int64_t{-2}, int64_t{4}}) {
        layout.params[0].sections = sections;
        const std::string error = user_error_of([&] { const StoreMap bad(layout, "store"); });
        EXPECT_NE(error.find("number of sections of embed"), error.npos) << error;
    }
}

// Chunks of two of four parameters at one byte an element, and the text of a layout without them is what it was.
TEST(StoreMap, ParametersMayHaveAWeightOfTheirOwn) {
    StoreLayout layout = small_layout();
    EXPECT_EQ(StoreMap(layout, "store").to_text().find("-1"), std::string::npos);
    layout.params[0].weight_bytes = layout.params[2].weight_bytes = 1;
    const StoreMap map(layout, "store"), again = StoreMap::from_text(map.to_text(), "store");
    EXPECT_EQ(map.weight_extent(0, 0).bytes, 256);
    EXPECT_EQ(map.weight_extent(2, 1).bytes, 700 - 512);
    EXPECT_EQ(map.weight_extent(3, 0).bytes, 3 * 2);
    int64_t end = map.weight_extent(0, 0).offset;
    for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
        const Extent extent = map.weight_extent(chunk, 0);
        EXPECT_EQ(extent.offset, end);
        EXPECT_EQ(again.weight_extent(chunk, 0).offset, extent.offset);
        EXPECT_EQ(again.weight_extent(chunk, 0).bytes, extent.bytes);
        end = extent.offset + round_up(extent.bytes, StoreMap::kAlignment);
    }
    EXPECT_EQ(again.layout().params[2].weight_bytes, 1);
    EXPECT_EQ(again.layout().params[2].sections, StoreParam::kAllSections);
    for (const int bytes : {-1, 65}) {
        layout.params[0].weight_bytes = bytes;
        const std::string error = user_error_of([&] { const StoreMap bad(layout, "store"); });
        EXPECT_NE(error.find("bytes of a weight of embed"), error.npos) << error;
    }
}

// State of a whole parameter stands behind the sections of its first chunk, and nowhere else.
TEST(StoreMap, ParametersMayHaveStateThatIsNotOfTheirElements) {
    const StoreLayout plain = small_layout();
    StoreLayout layout = plain;
    layout.params[0].own_bytes = 5000;
    layout.params[2].own_bytes = 4;
    layout.params[2].sections = 0;
    const StoreMap map(layout, "store"), again = StoreMap::from_text(map.to_text(), "store"), before(plain, "store");
    int64_t end = map.state_extent(0, 1).offset;
    for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
        const Extent extent = map.state_extent(chunk, 1);
        const ChunkRef ref = map.chunk(chunk);
        const int64_t own = ref.first > 0 ? 0 : layout.params[static_cast<size_t>(ref.param)].own_bytes;
        EXPECT_EQ(extent.offset, end) << chunk;
        EXPECT_EQ(extent.bytes, (ref.param == 2 ? 0 : before.state_extent(chunk, 1).bytes) + own) << chunk;
        EXPECT_EQ(again.state_extent(chunk, 1).offset, extent.offset);
        EXPECT_EQ(again.state_extent(chunk, 1).bytes, extent.bytes);
        end = extent.offset + round_up(extent.bytes, StoreMap::kAlignment);
    }
    EXPECT_EQ(end, map.file_bytes());
    for (const int64_t bytes : {int64_t{-1}, (int64_t{1} << 48) + 1}) {
        layout.params[0].own_bytes = bytes;
        const std::string error = user_error_of([&] { const StoreMap bad(layout, "store"); });
        EXPECT_NE(error.find("bytes of state of all of embed"), error.npos) << error;
    }
}

// Of two of four parameters there is one version, before those of the others.
TEST(StoreMap, ParametersMayBeWrittenOnce) {
    StoreLayout layout = small_layout();
    layout.params[0].once = layout.params[2].once = true;
    layout.params[0].sections = 0;
    const StoreMap map(layout, "store"), again = StoreMap::from_text(map.to_text(), "store");
    std::vector<Extent> extents;
    const auto add = [&](bool once, int version) {
        for (const bool weights : {true, false}) {
            for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
                if (map.is_written_once(chunk) == once)
                    extents.push_back(weights ? map.weight_extent(chunk, version) : map.state_extent(chunk, version));
            }
        }
    };
    add(true, 0);
    add(false, 0);
    add(false, 1);
    int64_t end = map.slot(1).offset + map.slot(1).bytes;
    for (const Extent& extent : extents) {
        EXPECT_EQ(extent.offset, end);  // in this order, without a hole
        end = extent.offset + round_up(extent.bytes, StoreMap::kAlignment);
    }
    EXPECT_EQ(end, map.file_bytes());
    for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
        const int64_t param = map.chunk(chunk).param;
        EXPECT_EQ(map.is_written_once(chunk), param == 0 || param == 2);
        EXPECT_EQ(map.weight_extent(chunk, 0).offset == map.weight_extent(chunk, 1).offset, map.is_written_once(chunk));
        EXPECT_EQ(again.state_extent(chunk, 1).offset, map.state_extent(chunk, 1).offset);
    }
    std::string text = map.to_text();
    const size_t mark = text.find(",1]");
    ASSERT_NE(mark, text.npos) << text;
    text[mark + 1] = '2';
    EXPECT_NE(user_error_of([&] { StoreMap::from_text(text, "store"); }).find("other versions"), text.npos);
}

// 34 bytes for each 64 elements, the last of them rounded up; the text of a layout without such is what it was.
TEST(StoreMap, ParametersMayHaveWeightsInGroups) {
    StoreLayout layout = small_layout();
    const std::string plain = StoreMap(layout, "store").to_text();
    layout.params[0].weight_bytes = 34;
    layout.params[0].weight_group = 64;
    const StoreMap map(layout, "store"), again = StoreMap::from_text(map.to_text(), "store");
    EXPECT_EQ(plain.find("-1"), plain.npos);
    EXPECT_EQ(map.chunk(2).count, 700 - 512);
    EXPECT_EQ(map.weight_extent(2, 1).bytes, 3 * 34);
    for (int64_t chunk = 0; chunk < map.chunk_count(); ++chunk) {
        EXPECT_EQ(again.weight_extent(chunk, 0).offset, map.weight_extent(chunk, 0).offset);
        EXPECT_EQ(again.weight_extent(chunk, 0).bytes, map.weight_extent(chunk, 0).bytes);
    }
    const StoreParam& in_groups = again.layout().params[0];
    for (const auto& [count, bytes] : {std::pair{0, 0}, {1, 34}, {64, 34}, {65, 68}, {256, 136}})
        EXPECT_EQ(again.layout().weight_bytes_of(in_groups, count), bytes) << count;
    for (const auto& [bytes, group] : {std::pair{34, 0}, {34, -1}, {34, 63}, {34, 257}, {34, 512}, {0, 64}}) {
        layout.params[0].weight_bytes = bytes;
        layout.params[0].weight_group = group;
        const std::string error = user_error_of([&] { const StoreMap bad(layout, "store"); });
        EXPECT_NE(error.find("weights in a group of " + layout.params[0].name), error.npos) << group << error;
    }
}

TEST(StoreMap, A405BModelFitsItsArithmetic) {
    StoreLayout layout{.sections = {{"lo", 2}, {"m", 4}, {"v", 4}}};
    for (int i = 0; i < 1000; ++i) layout.params.push_back({fmt::format("block.{}", i), 405'000'000});
    const StoreMap map(layout, "store");
    EXPECT_EQ(map.chunk_count(), 97'000);
    EXPECT_NEAR(static_cast<double>(map.file_bytes()), 405e9 * 12 * 2, 405e9 * 24 * 0.001);
}

}  // namespace
}  // namespace windlass
