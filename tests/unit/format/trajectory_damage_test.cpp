// A trajectory log that is not what it should be: cut off, flipped, forged, of another version.

#include <gtest/gtest.h>

#include <cstring>

#include "base/log.h"
#include "base/rng.h"
#include "format/checksum.h"
#include "tests/fault_files.h"
#include "tests/unit/format/damage.h"
#include "tests/unit/format/safetensors_bytes.h"
#include "tests/unit/format/trajectory_samples.h"

namespace windlass {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kDamagedLog = "/image/run.trajectory";
constexpr int64_t kSteps = 12;
constexpr int64_t kRecordBytes = 40;  // of two directions

// Warnings of logs that are cut off are what these tests are about.
class TrajectoryDamage : public testing::Test {
  protected:
    void SetUp() override { set_log_level(LogLevel::error); }
    void TearDown() override { set_log_level(LogLevel::info); }
};

std::string whole_log(const TrajectoryHeader& header = sample_header(2)) {
    FaultFiles files("/image");
    TrajectoryWriter writer = TrajectoryWriter::create(files, kDamagedLog, header);
    append_samples(writer, kSteps);
    writer.sync();
    return log_bytes(files, kDamagedLog);
}

int64_t records_offset(std::string_view bytes) {
    return std::ssize(bytes) - kSteps * kRecordBytes;
}

void write_log(FileSystem& files, std::string_view bytes) {
    files.open(kDamagedLog, {.mode = OpenMode::create})->write_at(std::as_bytes(std::span(bytes)), 0);
}

std::string refusal_of_log(std::string_view bytes) {
    FaultFiles files("/image");
    write_log(files, bytes);
    return message_of<UserError>([&] { TrajectoryReader::open(files, kDamagedLog); });
}

// Makes header and mark agree with their bytes again; `text_bytes` follow the first 48.
void seal(std::string& bytes, size_t text_bytes, int64_t synced) {
    put(bytes, 24, sum_of(bytes.substr(0, 24) + bytes.substr(48, text_bytes)));
    put(bytes, 32, synced);
    put(bytes, 40, sum_of(bytes.substr(24, 16)));
}

// A log without records whose header says this, with checksums that hold.
std::string forge(std::string_view text) {
    std::string bytes(48, '\0');
    std::memcpy(bytes.data(), "WNDLTRAJ", 8);
    put<uint32_t>(bytes, 8, 1);
    put<int64_t>(bytes, 16, std::ssize(text));
    bytes += text;
    seal(bytes, text.size(), 0);
    return bytes;
}

// The text of a sound log's header, and the same with one part replaced.
std::string sound_text() {
    const std::string whole = whole_log();
    return whole.substr(48, static_cast<size_t>(records_offset(whole)) - 48);
}

std::string text_with(std::string_view from, std::string_view to) {
    std::string text = sound_text();
    const size_t at = text.find(from);
    if (at == std::string::npos) ADD_FAILURE() << from << " is not in " << text;
    return text.replace(at, from.size(), to);
}

TEST_F(TrajectoryDamage, EveryFlippedByteOfASyncedRecordIsFoundAndNamedByItsStep) {
    const std::string whole = whole_log();
    Random random(7, RandomStream::test);
    for (int64_t at = records_offset(whole); at < std::ssize(whole); ++at) {
        std::string bytes = whole;
        bytes[static_cast<size_t>(at)] ^= static_cast<char>(1u << random.below(8));
        const int64_t index = (at - records_offset(whole)) / kRecordBytes;
        EXPECT_THAT(refusal_of_log(bytes),
                    HasSubstr(fmt::format("the record of step {} (byte {}) is damaged. Try:", index + 1,
                                          records_offset(whole) + index * kRecordBytes)));
    }
}

TEST_F(TrajectoryDamage, EveryFlippedBitOfTheFrontIsFound) {
    const std::string whole = whole_log();
    for (int64_t bit = 0; bit < records_offset(whole) * 8; ++bit) {
        std::string bytes = whole;
        bytes[static_cast<size_t>(bit / 8)] ^= static_cast<char>(1 << bit % 8);
        EXPECT_THAT(refusal_of_log(bytes), StartsWith(kDamagedLog + ": ")) << "bit " << bit;
    }
}

TEST_F(TrajectoryDamage, ALogThatIsShorterThanItsMarkIsRefused) {
    const std::string whole = whole_log();
    for (int64_t size = 0; size < std::ssize(whole); ++size) {
        const std::string refusal = refusal_of_log(std::string_view(whole).substr(0, static_cast<size_t>(size)));
        const int64_t left = (size - records_offset(whole)) / kRecordBytes;
        if (size < records_offset(whole)) {
            EXPECT_THAT(refusal, HasSubstr("header")) << size;
        } else {
            EXPECT_THAT(refusal,
                        HasSubstr(fmt::format("the record of step {} (byte {}) is gone: the log ends at byte {}, "
                                              "and was synced up to step 12",
                                              left + 1, records_offset(whole) + left * kRecordBytes, size)));
        }
    }
}

// What stood behind the mark was never known to be durable.
TEST_F(TrajectoryDamage, ATornTailIsNotReadAndToldOfAndCutOff) {
    const std::string whole = whole_log();
    constexpr int64_t kSynced = 5;
    const int64_t begin = records_offset(whole), synced_end = begin + kSynced * kRecordBytes;
    for (int64_t size = synced_end; size < std::ssize(whole); size += 3) {
        std::string bytes = whole.substr(0, static_cast<size_t>(size));
        seal(bytes, static_cast<size_t>(begin) - 48, kSynced);
        FaultFiles files("/image");
        write_log(files, bytes);
        const int64_t left = (size - begin) / kRecordBytes, end = begin + left * kRecordBytes;
        const TrajectoryReader reader = TrajectoryReader::open(files, kDamagedLog);
        EXPECT_EQ(reader.last_step(), left);
        const std::string tail =
            fmt::format("the {} bytes from byte {} on are not a whole record of step {} and are not known to be synced",
                        size - end, end, left + 1);
        EXPECT_EQ(reader.tail(), size == end ? "" : tail);
        TrajectoryWriter writer = TrajectoryWriter::open(files, kDamagedLog);
        EXPECT_EQ(files.status(kDamagedLog).bytes, end);
        append_samples(writer, kSteps);
        writer.sync();
        EXPECT_TRUE(log_bytes(files, kDamagedLog) == whole);
    }
}

// Later appends may have reached the drive where an earlier one did not.
TEST_F(TrajectoryDamage, NothingBehindAGapCounts) {
    const std::string whole = whole_log();
    std::string bytes = whole;
    const auto begin = static_cast<size_t>(records_offset(whole));
    seal(bytes, begin - 48, 5);
    std::fill_n(bytes.begin() + static_cast<int64_t>(begin) + 7 * kRecordBytes, kRecordBytes, '\0');
    FaultFiles files("/image");
    write_log(files, bytes);
    EXPECT_EQ(TrajectoryReader::open(files, kDamagedLog).last_step(), 7);
    EXPECT_EQ(TrajectoryWriter::open(files, kDamagedLog).next_step(), 8);
}

TEST_F(TrajectoryDamage, RecordsAreTakenOnlyInTheirPlace) {
    const std::string whole = whole_log();
    TrajectoryHeader other_header = sample_header(2);
    other_header.run_seed = 8;
    const std::string other = whole_log(other_header);
    const auto begin = static_cast<size_t>(records_offset(whole));
    const auto record = [&](const std::string& bytes, size_t index) {
        return bytes.substr(static_cast<size_t>(records_offset(bytes)) + index * kRecordBytes, kRecordBytes);
    };
    std::string swapped = whole, foreign = whole, repeated = whole;
    swapped.replace(begin + 3 * kRecordBytes, 2 * kRecordBytes, record(whole, 4) + record(whole, 3));
    EXPECT_THAT(refusal_of_log(swapped), HasSubstr("step 4 (byte"));
    foreign.replace(begin + 3 * kRecordBytes, kRecordBytes, record(other, 3));
    EXPECT_THAT(refusal_of_log(foreign), HasSubstr("step 4 (byte"));
    foreign = whole.substr(0, begin) + other.substr(static_cast<size_t>(records_offset(other)));
    EXPECT_THAT(refusal_of_log(foreign), HasSubstr("step 1 (byte"));
    repeated.replace(begin + 3 * kRecordBytes, kRecordBytes, record(whole, 2));
    EXPECT_THAT(refusal_of_log(repeated), HasSubstr("step 4 (byte"));
}

TEST_F(TrajectoryDamage, WhatLiesBeforeDamageIsReadAndForked) {
    std::string bytes = whole_log();
    bytes[static_cast<size_t>(records_offset(bytes)) + 8 * kRecordBytes + 5] ^= 4;
    FaultFiles files("/image");
    write_log(files, bytes);
    EXPECT_THAT(message_of<UserError>([&] { TrajectoryWriter::open(files, kDamagedLog); }),
                HasSubstr("is damaged. Try: a fork of this log up to step 8, which is whole"));
    TrajectoryReader reader = TrajectoryReader::open(files, kDamagedLog, OnDamage::stop);
    EXPECT_EQ(reader.last_step(), 8);
    EXPECT_THAT(reader.tail(), StartsWith("the record of step 9 (byte "));
    EXPECT_EQ(reader.read(8), sample_record(8, 2));
    EXPECT_THROW(TrajectoryWriter::fork(files, kDamagedLog, 9, "/image/fork"), UserError);
    TrajectoryWriter branch = TrajectoryWriter::fork(files, kDamagedLog, 8, "/image/fork");
    append_samples(branch, kSteps);
    EXPECT_EQ(TrajectoryReader::open(files, "/image/fork").read(kSteps), sample_record(kSteps, 2));
    EXPECT_TRUE(log_bytes(files, kDamagedLog) == bytes);
}

TEST_F(TrajectoryDamage, ADamagedMarkIsNamedAndCostsNoRecord) {
    std::string bytes = whole_log();
    bytes[33] ^= 1;
    EXPECT_THAT(refusal_of_log(bytes),
                HasSubstr("the mark of synced bytes (byte 32) is damaged. Try: a fork of this log "
                          "up to step 12"));
    FaultFiles files("/image");
    write_log(files, bytes);
    EXPECT_EQ(TrajectoryWriter::fork(files, kDamagedLog, kSteps, "/image/fork").next_step(), kSteps + 1);
}

TEST_F(TrajectoryDamage, ARecordThatChangesAfterOpeningIsNotHandedOut) {
    FaultFiles files("/image");
    write_log(files, whole_log());
    TrajectoryReader reader = TrajectoryReader::open(files, kDamagedLog);
    std::string bytes = whole_log();
    bytes[bytes.size() - 1] ^= 1;
    write_log(files, bytes);
    EXPECT_EQ(reader.read(kSteps - 1), sample_record(kSteps - 1, 2));
    EXPECT_THAT(message_of<UserError>([&] { reader.read(kSteps); }), HasSubstr("the record of step 12 (byte"));
}

// A sum can be forged; what it vouches for is looked at all the same.
TEST_F(TrajectoryDamage, ForgedRecordsAreRefused) {
    const std::string whole = whole_log();
    const auto begin = static_cast<size_t>(records_offset(whole));
    const auto refusal_with = [&](size_t at, auto value) {
        std::string bytes = whole;
        put(bytes, begin + at, value);
        put(bytes, begin, sum_of(bytes.substr(24, 8) + bytes.substr(begin + 8, kRecordBytes - 8)));
        return refusal_of_log(bytes);
    };
    const std::string expected = fmt::format("the record of step 1 (byte {}) is damaged", begin);
    EXPECT_THAT(refusal_with(24, uint32_t{2}), HasSubstr(expected));
    EXPECT_THAT(refusal_with(28, uint32_t{3}), HasSubstr(expected));
    EXPECT_THAT(refusal_with(8, std::numeric_limits<double>::infinity()), HasSubstr(expected));
    EXPECT_THAT(refusal_with(36, std::numeric_limits<float>::quiet_NaN()), HasSubstr(expected));
    // The forgery itself is sound: with a value that is allowed, only the next record's predecessor is wrong.
    EXPECT_THAT(refusal_with(36, 2.5f), HasSubstr("the record of step 2 "));
}

TEST_F(TrajectoryDamage, AnotherMajorVersionIsRefusedByItsNumberAndALaterMinorIsRead) {
    const std::string text = sound_text();
    const auto with_version = [&](uint32_t major, uint32_t minor) {
        std::string bytes = forge(text);
        put(bytes, 8, major);
        put(bytes, 12, minor);
        seal(bytes, text.size(), 0);
        return bytes;
    };
    EXPECT_THAT(refusal_of_log(with_version(2, 3)), HasSubstr("trajectory log version 2.3, this program reads 1.x"));
    EXPECT_THAT(refusal_of_log(with_version(0, 9)), HasSubstr("trajectory log version 0.9"));
    FaultFiles files("/image");
    write_log(files, with_version(1, 7));
    EXPECT_EQ(TrajectoryReader::open(files, kDamagedLog).header(), sample_header(2));
}

TEST_F(TrajectoryDamage, EveryValueOfTheHeaderIsBounded) {
    const struct {
        std::string_view from, to, message;
    } cases[] = {
        {"\"directions\":2", "\"directions\":0", "has \"directions\": 0, expected 1 .. 65536"},
        {"\"directions\":2", "\"directions\":65537", "expected 1 .. 65536"},
        {"\"directions\":2", "\"directions\":18446744073709551615", "expected 1 .. 65536"},
        {"\"directions\":2", "\"directions\":-1", "has \"directions\": -1, expected a count"},
        {"\"directions\":2", "\"directions\":2.0", "expected a count"},
        {"\"directions\":2,", "", "lacks \"directions\""},
        {"\"rank\":2", "\"rank\":0", "has \"rank\": 0, expected 1 .. 65536"},
        {"\"window\":50", "\"window\":99999999999", "has \"window\""},
        {"\"kept\":\"right\"", "\"kept\":\"left\"", "has \"kept\": \"left\", expected right | both"},
        {",\"kept\":\"right\"", "", "lacks \"kept\""},
        {"low_rank", "gaussian", "has \"rank\": 2, expected 0 .. 0"},
        {"low_rank", "uniform", "expected gaussian | rademacher | low_rank"},
        {"\"revision\":3", "\"revision\":0", "has \"revision\": 0"},
        {"\"stochastic\"", "\"up\"", "expected nearest | stochastic"},
        {"\"bf16\"", "\"bf17\"", "has \"storage\": \"bf17\", expected an element type"},
        {"\"eps\":0.001", "\"eps\":-0.001", "has \"eps\": -0.001, expected 0 or more"},
        {"\"eps\":0.001", "\"eps\":null", "has \"eps\": null, expected a number"},
        {"\"first_step\":1", "\"first_step\":0", "has \"first_step\": 0"},
        {"\"first_step\":1", "\"first_step\":4294967296", "has \"first_step\""},
        {"0123456789abcdef", "0123456789abcdeg", "expected 16 hexadecimal digits"},
        {"0123456789abcdef", "0123456789abcde", "expected 16 hexadecimal digits"},
        {"\"elements\":1234", "\"elements\":9223372036854775808", "has \"elements\""},
        {"\"zeroth_order\"", "\"\"", "has \"method\": \"\", expected a name"},
        {"\"zeroth_order\"", "7", "has \"method\": 7, expected a string"},
        {"\"run_seed\":18446744073709551615", "\"run_seed\":18446744073709551616", "has \"run_seed\""},
        {"{\"name\":\"tiny\"", "[{}],\"x\":{\"name\":\"tiny\"", "the header is not a JSON object"},
        {"\"settings\":", "\"setting\":", "lacks \"settings\""},
        {"\"settings\":", "\"origin\":{},\"settings\":", "lacks \"step\""},
        {"\"settings\":", "\"method\":1,\"settings\":", "the key \"method\" twice"},
        {"}", "", "not valid JSON"},
    };
    for (const auto& [from, to, message] : cases)
        EXPECT_THAT(refusal_of_log(forge(text_with(from, to))), HasSubstr(message)) << to;
    for (const std::string& text :
         {std::string(), std::string("7"), std::string(5000, '['), std::string("\"\\ud800\"")})
        EXPECT_THAT(refusal_of_log(forge(text)), StartsWith(kDamagedLog + ": ")) << text.substr(0, 20);
}

TEST_F(TrajectoryDamage, ForgedSizesAreRefusedBeforeAnythingIsAllocated) {
    for (const int64_t size : {int64_t{1} << 62, int64_t{-1}, (int64_t{1} << 20) + 1, int64_t{100'000}}) {
        std::string bytes = whole_log();
        put(bytes, 16, size);
        EXPECT_THAT(refusal_of_log(bytes), HasSubstr("wrong size in the log's header"));
    }
    for (const int64_t synced : {std::numeric_limits<int64_t>::max(), int64_t{-1}, int64_t{1} << 32}) {
        std::string bytes = whole_log();
        seal(bytes, static_cast<size_t>(records_offset(bytes)) - 48, synced);
        EXPECT_THAT(refusal_of_log(bytes), HasSubstr("the mark of synced bytes"));
    }
    std::string bytes = whole_log();
    seal(bytes, static_cast<size_t>(records_offset(bytes)) - 48, 13);
    EXPECT_THAT(refusal_of_log(bytes), HasSubstr("step 13"));
}

TEST_F(TrajectoryDamage, AHeaderThatNoReaderWouldTakeIsNotWritten) {
    FaultFiles files("/image");
    const auto refusal_with = [&](auto change) {
        TrajectoryHeader header = sample_header();
        change(header);
        return message_of<UserError>([&] { TrajectoryWriter::create(files, kDamagedLog, header); });
    };
    EXPECT_THAT(refusal_with([](TrajectoryHeader& x) { x.directions = 65537; }), HasSubstr("\"directions\": 65537"));
    EXPECT_THAT(refusal_with([](TrajectoryHeader& x) { x.eps = std::numeric_limits<double>::quiet_NaN(); }),
                HasSubstr("\"eps\""));
    EXPECT_THAT(refusal_with([](TrajectoryHeader& x) { x.noise.rank = 0; }), HasSubstr("\"rank\": 0"));
    EXPECT_THAT(refusal_with([](TrajectoryHeader& x) { x.settings = "{"; }), HasSubstr("not valid JSON"));
    EXPECT_THAT(refusal_with([](TrajectoryHeader& x) { x.base.name = std::string(2'000'000, 'x'); }),
                HasSubstr("at most 1048576 are read"));
    EXPECT_TRUE(files.list("/image").empty());
}

}  // namespace
}  // namespace windlass
