#include "format/tfevents.h"

#include "format/checksum.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

// An independent reader: bitwise CRC-32C, records, and the protobuf wire format as nested field lists.
uint32_t slow_crc32c(std::string_view bytes) {
    uint32_t crc = 0xffffffff;
    for (const char byte : bytes) {
        crc ^= static_cast<uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

uint32_t masked(std::string_view bytes) {
    const uint32_t crc = slow_crc32c(bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

template <typename T>
T take(std::string_view& bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
}

std::vector<std::string> records(std::string_view file) {
    std::vector<std::string> payloads;
    while (!file.empty()) {
        const std::string_view length_bytes = file.substr(0, 8);
        const auto length = take<uint64_t>(file);
        EXPECT_EQ(take<uint32_t>(file), masked(length_bytes));
        payloads.emplace_back(file.substr(0, length));
        file.remove_prefix(length);
        EXPECT_EQ(take<uint32_t>(file), masked(payloads.back()));
    }
    return payloads;
}

uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = take<uint8_t>(bytes);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
}

// Field number -> raw value.
std::map<uint64_t, std::string> fields(std::string_view bytes) {
    std::map<uint64_t, std::string> values;
    while (!bytes.empty()) {
        const uint64_t key = varint(bytes);
        const uint64_t wire = key & 7;
        std::string& value = values[key >> 3];
        if (wire == 0) {
            value = fmt::format("{}", static_cast<int64_t>(varint(bytes)));
            continue;
        }
        const uint64_t count = wire == 1 ? 8 : wire == 5 ? 4 : varint(bytes);
        value = bytes.substr(0, count);
        bytes.remove_prefix(count);
    }
    return values;
}

template <typename T>
T number(std::string_view bytes) {
    EXPECT_EQ(bytes.size(), sizeof(T));
    return take<T>(bytes);
}

TEST(Events, AreReadBackByAnIndependentReader) {
    EXPECT_EQ(slow_crc32c("123456789"), 0xe3069283u);
    const TempFolder folder;
    std::string path;
    {
        EventWriter events(real_files(), folder.path(), 1700000000.5);
        path = events.path();
        EXPECT_TRUE(path.ends_with("/events.out.tfevents.1700000000.windlass"));
        events.scalar("train/loss", 1, 2.25f, 1700000001.0);
        events.scalar("lr", 1'000'000, 1e-5f, 1700000002.0);
    }
    const std::vector<std::string> payloads = records(read_bytes(path));
    ASSERT_EQ(payloads.size(), 3u);
    auto version = fields(payloads[0]);
    EXPECT_EQ(number<double>(version[1]), 1700000000.5);
    EXPECT_EQ(version[3], "brain.Event:2");
    auto event = fields(payloads[1]);
    EXPECT_EQ(number<double>(event[1]), 1700000001.0);
    EXPECT_EQ(event[2], "1");
    auto value = fields(fields(event[5])[1]);
    EXPECT_EQ(value[1], "train/loss");
    EXPECT_EQ(number<float>(value[2]), 2.25f);
    EXPECT_EQ(fields(payloads[2])[2], "1000000");
}

TEST(Events, AreOnDiskAfterFlush) {
    const TempFolder folder;
    EventWriter events(real_files(), folder.path(), 5);
    EXPECT_EQ(records(read_bytes(events.path())).size(), 1u);
    for (int step = 0; step < 3000; ++step) events.scalar("loss", step, 1.0f, 6);
    EXPECT_GT(records(read_bytes(events.path())).size(), 1u) << "a long buffer flushes by itself";
    events.flush();
    EXPECT_EQ(records(read_bytes(events.path())).size(), 3001u);
}

TEST(Events, NeverOverwriteAnEarlierFile) {
    const TempFolder folder;
    const EventWriter first(real_files(), folder.path(), 5), second(real_files(), folder.path(), 5.9);
    EXPECT_EQ(second.path(), first.path() + ".1");
}

}  // namespace
}  // namespace windlass
