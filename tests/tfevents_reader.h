// tfevents_reader.h: an independent reader of TensorBoard's event files: bitwise CRC-32C, records, and the protobuf
// wire format as nested field lists; and what TensorBoard shows of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace windlass::events {

inline uint32_t slow_crc32c(std::string_view bytes) {
    uint32_t crc = 0xffffffff;
    for (const char byte : bytes) {
        crc ^= static_cast<uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

inline uint32_t masked(std::string_view bytes) {
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

inline std::vector<std::string> records(std::string_view file) {
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

inline uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = take<uint8_t>(bytes);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
}

// Field number -> raw value; of a varint its digits.
inline std::map<uint64_t, std::string> fields(std::string_view bytes) {
    std::map<uint64_t, std::string> values;
    while (!bytes.empty()) {
        const uint64_t key = varint(bytes);
        const uint64_t wire = key & 7;
        std::string& value = values[key >> 3];
        if (wire == 0) {
            value = std::to_string(static_cast<int64_t>(varint(bytes)));
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

// The points of a tag as TensorBoard's reader has them in the end: it reads a folder's files by name, and at the start
// of a session drops, of every tag, the points from that step on.
inline std::vector<std::pair<int64_t, float>> points_of(FileSystem& files, const std::string& folder,
                                                        std::string_view tag) {
    std::vector<std::pair<int64_t, float>> points;
    for (const std::string& name : files.list(folder)) {
        if (!name.starts_with("events.out.tfevents.")) continue;
        for (const std::string& payload : records(read_text(files, folder + "/" + name, int64_t{1} << 30))) {
            auto event = fields(payload);
            const int64_t step = event.contains(2) ? std::stoll(event[2]) : 0;
            if (event.contains(7) && fields(event[7])[1] == "1")
                std::erase_if(points, [&](const auto& point) { return point.first >= step; });
            if (!event.contains(5)) continue;
            auto value = fields(fields(event[5])[1]);
            if (value[1] == tag) points.emplace_back(step, number<float>(value[2]));
        }
    }
    return points;
}

}  // namespace windlass::events
