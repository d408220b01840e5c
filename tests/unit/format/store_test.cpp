#include "format/store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/rng.h"
#include "format/checksum.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/small_layout.h"

namespace windlass {
namespace {

const std::string kStorePath = "/image/store";

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

TEST(Store, HoldsParametersOfDifferentWidths) {
    StoreLayout layout = small_layout();
    layout.params[1].weight_bytes = 1;
    layout.params[0].weight_bytes = 34;
    layout.params[0].weight_group = 64;
    const auto files = store_after(3, layout);
    Store store = Store::open(*files, kStorePath);
    expect_step(store, 3);
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

TEST(Store, RefusesToWriteAgainWhatIsWrittenOnce) {
    FaultFiles files("/image");
    StoreLayout layout = small_layout();
    layout.params[0].once = true;
    Store store = Store::create(files, kStorePath, layout);
    run_step(files, store, 0);
    EXPECT_EQ(store.next_version(0), 0);
    EXPECT_EQ(store.next_version(3), 1);
    const ChunkUpdate again{.chunk = 0};
    EXPECT_DEATH(store.commit(1, "", {&again, 1}), "chunk 0 is written again");
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
    EXPECT_THAT(user_error_of([&] { store.commit(1, "", {}); }), testing::HasSubstr("opened again"));
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
