#include "format/store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/file_fault.h"
#include "base/log.h"
#include "base/math.h"
#include "base/rng.h"
#include "format/checksum.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

const std::string kStorePath = "/image/store";

StoreLayout small_layout(int versions = 2) {
    return {.params = {{"embed", 700}, {"norm", 3}, {"up.weight", 512}, {"bias", 257}},
            .chunk_elements = 256,
            .versions = versions,
            .weight_bytes = 2,
            .sections = {{"lo", 2}, {"m", 4}, {"v", 4}},
            .run_state_bytes_max = 10000,
            .meta = R"({"numerics": "bf16"})"};
}

// What a chunk holds after a step that wrote it: any function of both will do.
void fill_chunk(std::span<std::byte> bytes, int64_t chunk, int64_t step, int part) {
    const uint64_t key = static_cast<uint64_t>(chunk * 1'000'003 + step * 2 + part);
    Random random(key, RandomStream::test);
    for (size_t at = 0; at < bytes.size(); at += 4) {
        const uint32_t word = random.next();
        std::memcpy(bytes.data() + at, &word, std::min<size_t>(4, bytes.size() - at));
    }
}

bool step_writes(int64_t chunk, int64_t step) {
    return step == 0 || step % 2 == 0 || chunk % 3 != 0;
}

std::string run_state_of(int64_t step) {
    return fmt::format(R"({{"step": {}, "fill": "{:>{}}"}})", step, "", 700 * step);
}

ChunkSums sums_of(const Store& store, int64_t chunk, int64_t step) {
    std::vector<std::byte> weights(static_cast<size_t>(store.weight_extent(chunk, 0).bytes));
    std::vector<std::byte> state(static_cast<size_t>(store.state_extent(chunk, 0).bytes));
    fill_chunk(weights, chunk, step, 0);
    fill_chunk(state, chunk, step, 1);
    return {.weight = xxh3_64(weights), .state = xxh3_64(state)};
}

// Runs one step as the executor would: through a queue, direct, to the version that is not current.
void run_step(FileSystem& files, Store& store, int64_t step) {
    const auto queue = files.make_queue(QueueKind::automatic, 4);
    std::vector<HugeBuffer> buffers;
    std::vector<ChunkUpdate> updates;
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        if (!step_writes(chunk, step)) continue;
        const int version = store.next_version(chunk);
        int part = 0;
        for (const Extent extent : {store.weight_extent(chunk, version), store.state_extent(chunk, version)}) {
            if (extent.bytes == 0) continue;
            const HugeBuffer& buffer = buffers.emplace_back(round_up(extent.bytes, kDirectAlignment), true);
            fill_chunk(buffer.span().first(static_cast<size_t>(extent.bytes)), chunk, step, part++);
            queue->submit(
                {.verb = FileVerb::write, .file = &store.file(), .offset = extent.offset, .buffer = buffer.span()});
        }
        updates.push_back({.chunk = chunk, .sums = sums_of(store, chunk, step)});
    }
    while (queue->in_flight() > 0) {
        for (const FileResult& result : queue->reap()) {
            if (result.error_number != 0) throw MachineError("write", kStorePath, result.error_number);
        }
    }
    store.commit(step, run_state_of(step), updates);
}

// The store holds exactly the state after this step.
void expect_step(Store& store, int64_t step) {
    ASSERT_EQ(store.committed_step(), step);
    EXPECT_EQ(store.committed_run_state(), run_state_of(step));
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        int64_t writer = step;
        while (!step_writes(chunk, writer)) --writer;
        EXPECT_EQ(store.sums(chunk), sums_of(store, chunk, writer)) << "chunk " << chunk;
    }
    for (const DamagedChunk& chunk : store.verify_all()) ADD_FAILURE() << chunk.text();
}

std::unique_ptr<FaultFiles> store_after(int64_t last_step, const StoreLayout& layout = small_layout()) {
    auto files = std::make_unique<FaultFiles>("/image");
    Store store = Store::create(*files, kStorePath, layout);
    for (int64_t step = 0; step <= last_step; ++step) run_step(*files, store, step);
    return files;
}

template <typename Action>
std::string user_error_of(Action action) {
    try {
        action();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        return error.what();
    }
    return "no error";
}

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

TEST(Store, HoldsParametersOfDifferentWidths) {
    StoreLayout layout = small_layout();
    layout.params[1].weight_bytes = 1;
    layout.params[0].weight_bytes = 34;
    layout.params[0].weight_group = 64;
    const auto files = store_after(3, layout);
    Store store = Store::open(*files, kStorePath);
    expect_step(store, 3);
}

TEST(StoreMap, A405BModelFitsItsArithmetic) {
    StoreLayout layout{.sections = {{"lo", 2}, {"m", 4}, {"v", 4}}};
    for (int i = 0; i < 1000; ++i) layout.params.push_back({fmt::format("block.{}", i), 405'000'000});
    const StoreMap map(layout, "store");
    EXPECT_EQ(map.chunk_count(), 97'000);
    EXPECT_NEAR(static_cast<double>(map.file_bytes()), 405e9 * 12 * 2, 405e9 * 24 * 0.001);
}

TEST(Store, RoundTripsItsLayoutAndState) {
    const auto files = store_after(0);
    Store store = Store::open(*files, kStorePath);
    const StoreLayout expected = small_layout();
    ASSERT_EQ(store.layout().params.size(), expected.params.size());
    for (size_t i = 0; i < expected.params.size(); ++i) {
        EXPECT_EQ(store.layout().params[i].name, expected.params[i].name);
        EXPECT_EQ(store.layout().params[i].numel, expected.params[i].numel);
    }
    EXPECT_EQ(store.layout().meta, expected.meta);
    EXPECT_EQ(store.layout().sections[2].name, "v");
    EXPECT_FALSE(store.must_verify());
    expect_step(store, 0);
}

TEST(Store, AlternatesVersionsOfTheChunksThatAStepWrites) {
    FaultFiles files("/image");
    Store store = Store::create(files, kStorePath, small_layout());
    EXPECT_EQ(store.committed_step(), -1);
    std::vector<int> version(static_cast<size_t>(store.chunk_count()), 1);
    for (int64_t step = 0; step < 6; ++step) {
        run_step(files, store, step);
        for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
            int& expected = version[static_cast<size_t>(chunk)];
            if (step_writes(chunk, step)) expected = 1 - expected;
            EXPECT_EQ(store.current_version(chunk), expected);
            EXPECT_EQ(store.next_version(chunk), 1 - expected);
        }
        Store again = Store::open(files, kStorePath);
        expect_step(again, step);
    }
}

TEST(Store, ASnapshotHasOneVersionAndOpensReadOnly) {
    const auto files = store_after(0, small_layout(1));
    Store store = Store::open(*files, kStorePath, OpenMode::read);
    expect_step(store, 0);
    EXPECT_EQ(store.current_version(5), 0);
}

TEST(Store, WorksOnARealDrive) {
    const TempFolder folder;
    Store store = Store::create(real_files(), folder / "store", small_layout());
    for (int64_t step = 0; step < 3; ++step) run_step(real_files(), store, step);
    Store again = Store::open(real_files(), folder / "store");
    expect_step(again, 2);
    EXPECT_EQ(real_files().status(folder / "store").bytes, Store::file_bytes(small_layout()));
}

TEST(Store, AStoreWithoutStateNeedsNoSections) {
    StoreLayout layout = small_layout();
    layout.sections.clear();
    const auto files = store_after(3, layout);
    Store store = Store::open(*files, kStorePath);
    expect_step(store, 3);
}

TEST(Store, CreatingRefusesAnExistingFileAndAFullDisk) {
    FaultFiles files("/image");
    files.set_capacity(50'000);
    try {
        Store::create(files, kStorePath, small_layout());
        FAIL() << "it fitted";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_THAT(error.what(), testing::HasSubstr("are needed, 48.83 KiB are free"));
    }
    EXPECT_FALSE(files.exists(kStorePath));
    files.set_capacity(FaultFiles::kCapacityDefault);
    Store::create(files, kStorePath, small_layout());
    EXPECT_THROW(Store::create(files, kStorePath, small_layout()), MachineError);
}

TEST(Store, ARunStateBeyondItsRoomIsRefused) {
    const auto files = store_after(0);
    Store store = Store::open(*files, kStorePath);
    EXPECT_THAT(user_error_of([&] { store.commit(1, std::string(10001, 'x'), {}); }),
                testing::HasSubstr("has 10001 bytes"));
    store.commit(1, std::string(10000, 'x'), {});
    EXPECT_EQ(Store::open(*files, kStorePath).committed_run_state().size(), 10000u);
}

TEST(Store, AfterAFailedCommitItMustBeOpenedAnew) {
    const auto files = store_after(0);
    Store store = Store::open(*files, kStorePath);
    files->fail({.call = FaultCall::sync, .nth = 2});
    EXPECT_THROW(run_step(*files, store, 1), MachineError);
    EXPECT_THAT(user_error_of([&] { store.commit(1, "", {}); }), testing::HasSubstr("opened anew"));
}

// The heart of it: power fails after every single call of a step, and whatever the drive kept of what was not
// synced, the store opens at the step before or at this one, whole, and the run goes on from there.
TEST(Store, APowerCutAtAnyCallLeavesTheOldOrTheNewStep) {
    set_log_level(LogLevel::error);  // not a line for each of many damaged stores
    int64_t old_states = 0, new_states = 0;
    for (int64_t step = 1; step <= 3; ++step) {
        const auto before = store_after(step - 1)->crash(1);
        for (int64_t calls = 0, done = 0; done == 0; ++calls) {
            const auto files = before->crash(1);
            Store running = Store::open(*files, kStorePath);
            files->cut_power_after(calls);
            try {
                run_step(*files, running, step);
                done = 1;
            } catch (const MachineError&) {
            }
            for (uint64_t seed = 0; seed < 24; ++seed) {
                const auto left = files->crash(seed + (seed > 1 ? static_cast<uint64_t>(calls) * 1000 : 0));
                Store store = Store::open(*left, kStorePath);
                ASSERT_TRUE(store.committed_step() == step || (store.committed_step() == step - 1 && done == 0));
                ++(store.committed_step() == step ? new_states : old_states);
                expect_step(store, store.committed_step());
                run_step(*left, store, store.committed_step() + 1);
                expect_step(store, store.committed_step());
                ASSERT_FALSE(testing::Test::HasFailure())
                    << "step " << step << ", " << calls << " calls, seed " << seed;
            }
            ASSERT_LT(calls, 200);
        }
    }
    EXPECT_GT(old_states, 500);
    EXPECT_GT(new_states, 50);
}

TEST(Store, APowerCutBeforeTheFirstCommitLeavesNoStore) {
    set_log_level(LogLevel::error);  // not a line for each of many damaged stores
    for (int64_t calls = 0, done = 0; done == 0; ++calls) {
        FaultFiles files("/image");
        files.cut_power_after(calls);
        try {
            Store store = Store::create(files, kStorePath, small_layout());
            run_step(files, store, 0);
            done = 1;
        } catch (const MachineError&) {
        }
        for (uint64_t seed = 0; seed < 12; ++seed) {
            const auto left = files.crash(seed);
            try {
                Store store = Store::open(*left, kStorePath);
                expect_step(store, 0);
            } catch (const Error&) {
                EXPECT_EQ(done, 0) << "a committed store is gone";
            }
        }
    }
}

}  // namespace
}  // namespace windlass
