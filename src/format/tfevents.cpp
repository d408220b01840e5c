#include "format/tfevents.h"

#include <bit>

#include "base/error.h"
#include "base/log.h"
#include "format/checksum.h"

namespace windlass {
namespace {

constexpr size_t kFlushBytes = size_t{64} << 10;

// The few fields of TensorBoard's protobuf messages that a scalar needs.
//   Event   { wall_time = 1: double; step = 2: int64; file_version = 3: string; summary = 5: Summary;
//             session_log = 7: SessionLog }
//   Summary { value = 1: repeated Value }    Value { tag = 1: string; simple_value = 2: float }
//   SessionLog { status = 1: enum, START = 1 }
enum class Wire : uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename T>
void put_little_endian(std::string& out, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_varint(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
    out += static_cast<char>(value);
}

void put_key(std::string& out, uint64_t field, Wire wire) {
    put_varint(out, field << 3 | static_cast<uint64_t>(wire));
}

void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
    put_key(out, field, Wire::bytes);
    put_varint(out, bytes.size());
    out += bytes;
}

std::string event_at(double wall_seconds) {
    std::string event;
    put_key(event, 1, Wire::fixed64);
    put_little_endian(event, std::bit_cast<uint64_t>(wall_seconds));
    return event;
}

uint32_t masked_crc(std::string_view bytes) {
    return masked_crc32c(std::as_bytes(std::span(bytes)));
}

std::string free_name(FileSystem& files, const std::string& folder, double wall_seconds) {
    const std::string name =
        fmt::format("{}/events.out.tfevents.{:010}.windlass", folder, static_cast<int64_t>(wall_seconds));
    if (!files.exists(name)) return name;
    int count = 1;
    while (files.exists(fmt::format("{}.{}", name, count))) ++count;
    return fmt::format("{}.{}", name, count);
}

std::string session_start(double wall_seconds, int64_t first_step) {
    constexpr uint64_t kStart = 1;
    std::string log;
    put_key(log, 1, Wire::varint);
    put_varint(log, kStart);
    std::string event = event_at(wall_seconds);
    put_key(event, 2, Wire::varint);
    put_varint(event, static_cast<uint64_t>(first_step));
    put_bytes(event, 7, log);
    return event;
}

}  // namespace

EventWriter::EventWriter(FileSystem& files, const std::string& folder, double wall_seconds, int64_t first_step)
    : file_(files.open(free_name(files, folder, wall_seconds), {.mode = OpenMode::create_new})) {
    std::string event = event_at(wall_seconds);
    put_bytes(event, 3, "brain.Event:2");
    append_record(event);
    append_record(session_start(wall_seconds, first_step));
    flush();
}

EventWriter::~EventWriter() {
    if (!file_) return;  // moved from
    try {
        flush();
    } catch (const Error& error) {
        log_warning("the last events of {} are lost: {}", file_->path(), error.what());
    }
}

void EventWriter::scalar(std::string_view tag, int64_t step, float value, double wall_seconds) {
    std::string point;
    put_bytes(point, 1, tag);
    put_key(point, 2, Wire::fixed32);
    put_little_endian(point, std::bit_cast<uint32_t>(value));
    std::string summary;
    put_bytes(summary, 1, point);

    std::string event = event_at(wall_seconds);
    put_key(event, 2, Wire::varint);
    put_varint(event, static_cast<uint64_t>(step));
    put_bytes(event, 5, summary);
    append_record(event);
    if (buffer_.size() >= kFlushBytes) flush();
}

void EventWriter::append_record(std::string_view payload) {
    std::string length;
    put_little_endian(length, static_cast<uint64_t>(payload.size()));
    buffer_ += length;
    put_little_endian(buffer_, masked_crc(length));
    buffer_ += payload;
    put_little_endian(buffer_, masked_crc(payload));
}

void EventWriter::flush() {
    if (buffer_.empty()) return;
    file_->write_at(std::as_bytes(std::span(buffer_)), written_);
    written_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
}

}  // namespace windlass
