// A store that is not what it should be: flipped bytes, other versions, hostile headers.

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/rng.h"
#include "format/checksum.h"
#include "format/store.h"
#include "tests/fault_files.h"
#include "tests/unit/format/damage.h"

namespace windlass {
namespace {

const std::string kDamagedStore = "/image/store";

StoreLayout two_params(int versions) {
    return {.params = {{"a.weight", 300}, {"b", 40}},
            .chunk_elements = 256,
            .versions = versions,
            .weight_bytes = 2,
            .sections = {{"lo", 2}, {"m", 4}},
            .run_state_bytes_max = 100};
}

void write_store(FileSystem& files, std::string_view bytes) {
    files.open(kDamagedStore, {.mode = OpenMode::create})->write_at(std::as_bytes(std::span(bytes)), 0);
}

// The bytes of a store whose chunks hold numbers and whose steps 0 .. last_step are committed.
std::string make_store(const StoreLayout& layout, int64_t last_step) {
    FaultFiles files("/image");
    Store store = Store::create(files, kDamagedStore, layout);
    for (int64_t step = 0; step <= last_step; ++step) {
        std::vector<ChunkUpdate> updates;
        for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
            ChunkSums sums;
            const int version = store.next_version(chunk);
            const auto put = [&](Extent extent) {
                const HugeBuffer buffer(round_up(extent.bytes, kDirectAlignment), true);
                const auto exact = buffer.span().first(static_cast<size_t>(extent.bytes));
                std::memset(exact.data(), static_cast<int>(step * 16 + chunk), exact.size());
                store.file().write_at(buffer.span(), extent.offset);
                return xxh3_64(exact);
            };
            sums.weight = put(store.weight_extent(chunk, version));
            sums.state = put(store.state_extent(chunk, version));
            updates.push_back({.chunk = chunk, .sums = sums});
        }
        store.commit(step, "state", updates);
    }
    return read_text(files, kDamagedStore, store.map().file_bytes());
}

enum class Verdict { refused, suspect, damaged_chunk, unnoticed };

Verdict judge(std::string_view bytes, int64_t step) {
    set_log_level(LogLevel::error);  // not a line for each of many damaged stores
    FaultFiles files("/image");
    write_store(files, bytes);
    try {
        Store store = Store::open(files, kDamagedStore);
        if (store.must_verify()) return Verdict::suspect;
        if (!store.verify_all().empty()) return Verdict::damaged_chunk;
        EXPECT_EQ(store.committed_step(), step);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        return Verdict::refused;
    }
    return Verdict::unnoticed;
}

Verdict judge_flip(std::string bytes, int64_t at, int64_t step) {
    bytes[static_cast<size_t>(at)] = static_cast<char>(bytes[static_cast<size_t>(at)] ^ (1 << (at % 8)));
    return judge(bytes, step);
}

TEST(StoreDamage, EveryByteOfHeaderAndLayoutIsGuarded) {
    const std::string bytes = make_store(two_params(2), 1);
    const int64_t end = StoreMap(two_params(2), "store").slot(0).offset;
    for (int64_t at = 0; at < end; at += at < 64 || at > end - 8 ? 1 : 5)
        EXPECT_EQ(judge_flip(bytes, at, 1), Verdict::refused) << "byte " << at;
}

TEST(StoreDamage, EveryByteOfTheOnlyRecordIsGuarded) {
    const std::string bytes = make_store(two_params(1), 0);
    const Extent slot = StoreMap(two_params(1), "store").slot(0);
    for (int64_t at = 0; at < slot.bytes; at += at < 200 ? 1 : 7)
        EXPECT_EQ(judge_flip(bytes, slot.offset + at, 0), Verdict::refused) << "byte " << at;
}

TEST(StoreDamage, DamageToEitherRecordMakesTheStoreSuspect) {
    const std::string bytes = make_store(two_params(2), 3);
    const StoreMap map(two_params(2), "store");
    for (const int64_t slot : {0, 1}) {
        for (int64_t at = 0; at < map.slot(slot).bytes; at += at < 200 ? 3 : 61)
            EXPECT_EQ(judge_flip(bytes, map.slot(slot).offset + at, 3), Verdict::suspect) << "byte " << at;
    }
}

TEST(StoreDamage, EveryByteOfAChunkIsGuardedAndNamed) {
    const std::string bytes = make_store(two_params(2), 2);
    FaultFiles files("/image");
    write_store(files, bytes);
    Store store = Store::open(files, kDamagedStore);
    Random random(5, RandomStream::test);
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        const int version = store.current_version(chunk);
        for (const bool weights : {true, false}) {
            const Extent extent = weights ? store.weight_extent(chunk, version) : store.state_extent(chunk, version);
            for (int i = 0; i < 20; ++i) {
                const auto at = extent.offset + static_cast<int64_t>(random.below(static_cast<uint64_t>(extent.bytes)));
                EXPECT_EQ(judge_flip(bytes, at, 2), Verdict::damaged_chunk) << "byte " << at;
            }
        }
    }
    std::string flipped = bytes;
    flipped[static_cast<size_t>(store.state_extent(1, store.current_version(1)).offset)] ^= 1;
    write_store(files, flipped);
    const auto found = Store::open(files, kDamagedStore).verify_all();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].text(), "a.weight elements [256, 300): state (lo, m)");
}

// What a byte of the file is for. The filling behind a chunk and the versions that are not current hold nothing.
enum class Region { header, record, chunk, unused };

Region region_of(const Store& store, int64_t at) {
    if (at < store.map().slot(0).offset) return Region::header;
    const Extent last_slot = store.map().slot(1);
    if (at < last_slot.offset + last_slot.bytes) return Region::record;
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        const int version = store.current_version(chunk);
        for (const Extent extent : {store.weight_extent(chunk, version), store.state_extent(chunk, version)})
            if (at >= extent.offset && at < extent.offset + extent.bytes) return Region::chunk;
    }
    return Region::unused;
}

Verdict expected_of(Region region) {
    switch (region) {
        case Region::header:
            return Verdict::refused;
        case Region::record:
            return Verdict::suspect;
        case Region::chunk:
            return Verdict::damaged_chunk;
        case Region::unused:
            return Verdict::unnoticed;
    }
    return Verdict::unnoticed;
}

// From the first byte to the last: a flipped one is noticed, or lies in space that holds nothing. Nothing is both.
TEST(StoreDamage, EveryByteOfTheFileIsGuardedOrUnused) {
    const std::string bytes = make_store(two_params(2), 3);
    FaultFiles files("/image");
    write_store(files, bytes);
    const Store store = Store::open(files, kDamagedStore);
    std::map<Region, int> seen;
    const auto expect_verdict = [&](int64_t at) {
        const Region region = region_of(store, at);
        ++seen[region];
        EXPECT_EQ(judge_flip(bytes, at, 3), expected_of(region)) << "byte " << at << " of " << bytes.size();
    };
    for (int64_t at = 0; at < std::ssize(bytes); at += 53) expect_verdict(at);
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {  // both sides of every border
        for (const int version : {0, 1}) {
            for (const Extent extent : {store.weight_extent(chunk, version), store.state_extent(chunk, version)}) {
                for (const int64_t at : {extent.offset, extent.offset + extent.bytes - 1, extent.offset + extent.bytes})
                    if (at < std::ssize(bytes)) expect_verdict(at);
            }
        }
    }
    for (const Region region : {Region::header, Region::record, Region::chunk, Region::unused})
        EXPECT_GT(seen[region], 20);
}

TEST(StoreDamage, AStoreThatWasCutIsRefused) {
    const std::string bytes = make_store(two_params(2), 1);
    for (const size_t length : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, bytes.size() - 1})
        EXPECT_EQ(judge(bytes.substr(0, length), 1), Verdict::refused) << length << " bytes";
    EXPECT_EQ(judge(bytes + "x", 1), Verdict::refused);
}

// ---- forged: the checksums are right, what they guard is not ----

std::string forge(std::string layout, int64_t file_bytes) {
    layout.resize(round_up<size_t>(layout.size(), 4096), ' ');
    std::string bytes(4096, '\0');
    std::memcpy(bytes.data(), "WNDLSTOR", 8);
    put<uint32_t>(bytes, 8, 1);
    put<int64_t>(bytes, 16, std::ssize(layout));
    put<uint64_t>(bytes, 24, sum_of(layout));
    put<int64_t>(bytes, 32, file_bytes);
    put<uint64_t>(bytes, 4088, sum_of(std::string_view(bytes).substr(0, 4088)));
    return bytes + layout;
}

std::string refusal_of_store(std::string_view bytes) {
    FaultFiles files("/image");
    write_store(files, bytes);
    try {
        Store::open(files, kDamagedStore);
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(StoreDamage, AnotherMajorVersionIsRefusedByItsNumberAndALaterMinorIsRead) {
    std::string bytes = make_store(two_params(2), 1);
    const auto with_version = [&](uint32_t major, uint32_t minor) {
        put(bytes, 8, major);
        put(bytes, 12, minor);
        put(bytes, 4088, sum_of(std::string_view(bytes).substr(0, 4088)));
        return refusal_of_store(bytes);
    };
    EXPECT_THAT(with_version(2, 3), testing::HasSubstr("store version 2.3, this program reads 1.x"));
    EXPECT_THAT(with_version(0, 9), testing::HasSubstr("store version 0.9"));
    // The header changed, so its records no longer belong to it; the version itself was accepted.
    EXPECT_THAT(with_version(1, 7), testing::HasSubstr("no whole commit"));
}

TEST(StoreDamage, ForgedSizesAreRefusedBeforeAnythingIsAllocated) {
    const auto layout = [](std::string_view params, std::string_view chunk, std::string_view versions,
                           std::string_view weight, std::string_view sections) {
        return fmt::format(R"({{"params": {}, "chunk_elements": {}, "versions": {}, "weight_bytes": {}, )"
                           R"("sections": {}, "run_state_bytes_max": 10, "meta": ""}})",
                           params, chunk, versions, weight, sections);
    };
    const std::string one = R"([["a", 10]])";
    const std::vector<std::string> layouts = {
        layout(R"([["a", 4611686018427387904]])", "256", "2", "2", "[]"),
        layout(R"([["a", 18446744073709551615]])", "256", "2", "2", "[]"),
        layout(R"([["a", -1]])", "256", "2", "2", "[]"),
        layout(R"([["a", 0]])", "256", "2", "2", "[]"),
        layout(R"([["a", 1.5]])", "256", "2", "2", "[]"),
        layout(R"([["a", 281474976710656]])", "256", "2", "64", "[]"),
        layout(R"([["", 10]])", "256", "2", "2", "[]"),
        layout(R"([["a"]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 65]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, -1]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 9223372036854775807]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 34, 0]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 34, 48]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 34, 9223372036854775807]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 34, "64"]])", "256", "2", "2", "[]"),
        layout(R"([["a", 10, -1, 0, 64]])", "256", "2", "2", "[]"),
        layout("[]", "256", "2", "2", "[]"),
        layout("7", "256", "2", "2", "[]"),
        layout(one, "0", "2", "2", "[]"),
        layout(one, "255", "2", "2", "[]"),
        layout(one, "4611686018427387904", "2", "2", "[]"),
        layout(one, "256", "3", "2", "[]"),
        layout(one, "256", "4294967298", "2", "[]"),
        layout(one, "256", "0", "2", "[]"),
        layout(one, "256", "2", "0", "[]"),
        layout(one, "256", "2", "9223372036854775807", "[]"),
        layout(one, "256", "2", "2", R"([["m", 9223372036854775807, 1]])"),
        layout(one, "256", "2", "2", R"([["m", 4, 0]])"),
        layout(one, "256", "2", "2", "[[1, 2, 3]]"),
        layout(one, "256", "2", "2", "[]") + "trailing",
        std::string(5000, '['),
        "{}",
        "",
        "\"\\ud800\"",
    };
    for (const std::string& text : layouts) {
        std::string bytes = forge(text, 4096 * 64);
        bytes.resize(4096 * 64);
        EXPECT_THAT(refusal_of_store(bytes), testing::StartsWith(kDamagedStore + ": ")) << text.substr(0, 200);
    }
}

TEST(StoreDamage, ForgedLengthsAreRefused) {
    const std::string text = StoreMap(two_params(2), "store").to_text();
    const int64_t right = Store::file_bytes(two_params(2));
    std::string bytes = forge(text, right + 4096);
    bytes.resize(static_cast<size_t>(right) + 4096);
    EXPECT_THAT(refusal_of_store(bytes), testing::HasSubstr("layout and length disagree"));
    bytes = forge(text, right);
    put<int64_t>(bytes, 16, int64_t{1} << 62);
    put(bytes, 4088, sum_of(std::string_view(bytes).substr(0, 4088)));
    bytes.resize(static_cast<size_t>(right));
    EXPECT_THAT(refusal_of_store(bytes), testing::HasSubstr("wrong sizes"));
}

TEST(StoreDamage, ARecordOfAnotherStoreIsNotTaken) {
    StoreLayout other = two_params(2);
    other.meta = "other";
    const std::string bytes = make_store(two_params(2), 1), foreign = make_store(other, 4);
    const Extent slot = StoreMap(two_params(2), "store").slot(0);
    std::string mixed = bytes;
    mixed.replace(static_cast<size_t>(slot.offset), static_cast<size_t>(slot.bytes), foreign,
                  static_cast<size_t>(slot.offset), static_cast<size_t>(slot.bytes));
    EXPECT_EQ(judge(mixed, 1), Verdict::suspect);
}

}  // namespace
}  // namespace windlass
