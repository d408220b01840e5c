#include "tests/fuzz/sealed.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "format/checksum.h"
#include "format/checksummed_json.h"
#include "format/store_map.h"

namespace windlass {
namespace {

constexpr size_t kDataBytesMax = size_t{1} << 20;
constexpr int64_t kStoreBytesMax = int64_t{4} << 20;

template <typename T>
T number_at(std::string_view bytes, size_t at) {
    T value{};
    if (at <= bytes.size() && bytes.size() - at >= sizeof(T)) std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
}

template <typename T>
void put_number(std::string& bytes, size_t at, T value) {
    if (at <= bytes.size() && bytes.size() - at >= sizeof(T)) std::memcpy(bytes.data() + at, &value, sizeof(T));
}

uint64_t sum_of_text(std::string_view bytes) {
    return xxh3_64(bytes_of(bytes));
}

uint32_t crc_of(std::string_view bytes) {
    return static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Past spaces; 0 where there is none.
size_t leading_number(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    size_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// The largest number after a "data_offsets".
size_t data_bytes_of(std::string_view header) {
    constexpr std::string_view kKey = "\"data_offsets\"";
    size_t most = 0;
    for (size_t at = header.find(kKey); at != header.npos; at = header.find(kKey, at + 1)) {
        const std::string_view list = header.substr(at, std::min(header.find(']', at), header.size()) - at);
        const size_t comma = list.rfind(',');
        if (comma != list.npos) most = std::max(most, leading_number(list.substr(comma + 1)));
    }
    return std::min(most, kDataBytesMax);
}

struct Inflated {
    uint32_t crc = 0, bytes = 0;
    size_t end = 0;  // of the compressed data
};
// Nothing where these are no data that zlib inflates to at most a few MiB.
std::optional<Inflated> inflated(std::string_view bytes) {
    constexpr uint32_t kTextMax = 4 << 20;
    z_stream stream{};
    if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) return std::nullopt;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    Inflated found{.crc = static_cast<uint32_t>(crc32(0, nullptr, 0))};
    Bytef piece[4096];
    int result = Z_OK;
    while (result == Z_OK && found.bytes < kTextMax) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        result = inflate(&stream, Z_NO_FLUSH);
        const uInt count = sizeof piece - stream.avail_out;
        found.crc = static_cast<uint32_t>(crc32(found.crc, piece, count));
        found.bytes += count;
    }
    // A wrong sum is seen when it was read.
    const bool is_at_end = result == Z_STREAM_END || (result == Z_DATA_ERROR && stream.msg != nullptr &&
                                                      std::string_view(stream.msg).starts_with("incorrect"));
    found.end = bytes.size() - stream.avail_in;
    inflateEnd(&stream);
    if (!is_at_end) return std::nullopt;
    return found;
}

constexpr size_t kXzHeader = 12, kXzFooter = 12;

}  // namespace

std::string sealed_safetensors(std::string_view header) {
    std::string bytes(sizeof(uint64_t), '\0');
    put_number<uint64_t>(bytes, 0, header.size());
    bytes += header;
    bytes.append(data_bytes_of(header), '\0');
    return bytes;
}

std::string sealed_json(std::string_view object) {
    const size_t end = object.find_last_not_of(" \n");
    if (end == object.npos || object[end] != '}') return std::string(object);
    const size_t member = object.find_last_not_of(" \n", end - 1);
    if (end == 0 || member == object.npos || object[member] == '{') return std::string(object);
    return with_checksum(object);
}

std::string sealed_gzip(std::string_view bytes) {
    std::string sealed(bytes);
    constexpr size_t kTrailer = 8;
    const std::optional<Inflated> text = inflated(bytes);
    if (!text || text->end < kTrailer) return sealed;
    put_number(sealed, text->end - kTrailer, text->crc);
    put_number(sealed, text->end - kTrailer + sizeof(uint32_t), text->bytes);
    return sealed;
}

std::string sealed_xz(std::string_view bytes) {
    std::string sealed(bytes);
    constexpr size_t kSum = sizeof(uint32_t);
    if (sealed.size() < kXzHeader + kXzFooter) return sealed;
    const auto seal = [&](size_t begin, size_t end, size_t at) {
        put_number(sealed, at, crc_of(std::string_view(sealed).substr(begin, end - begin)));
    };
    seal(6, 8, 8);
    const size_t block = (size_t{static_cast<unsigned char>(sealed[kXzHeader])} + 1) * 4;
    if (block > kSum && kXzHeader + block <= sealed.size())
        seal(kXzHeader, kXzHeader + block - kSum, kXzHeader + block - kSum);
    const size_t footer = sealed.size() - kXzFooter;
    const size_t index = (size_t{number_at<uint32_t>(sealed, footer + kSum)} + 1) * 4;
    if (index > kSum && index <= footer) seal(footer - index, footer - kSum, footer - kSum);
    seal(footer + kSum, footer + 10, footer);
    return sealed;
}

std::string sealed_store(std::string_view layout, std::string_view record, std::string_view other_record) {
    std::string text(layout);
    text.resize(static_cast<size_t>(round_up(std::ssize(text), StoreMap::kAlignment)), ' ');
    std::optional<StoreMap> map;
    try {
        map = StoreMap::from_text(text, "layout");
    } catch (const Error&) {
        return "";
    }
    if (map->file_bytes() > kStoreBytesMax) return "";
    std::string file(static_cast<size_t>(map->file_bytes()), '\0');
    constexpr size_t kHeader = StoreMap::kHeaderBytes, kSumAt = kHeader - sizeof(uint64_t);
    file.replace(0, 8, "WNDLSTOR");
    put_number<uint32_t>(file, 8, 1);
    put_number<uint64_t>(file, 16, text.size());
    put_number(file, 24, sum_of_text(text));
    put_number<uint64_t>(file, 32, file.size());
    const uint64_t binding = sum_of_text(std::string_view(file).substr(0, kSumAt));
    put_number(file, kSumAt, binding);
    file.replace(kHeader, text.size(), text);
    for (const int slot : {0, 1}) {
        const std::string_view from = slot == 0 ? record : other_record;
        const Extent room = map->slot(slot);
        constexpr size_t kBegin = 16;
        if (from.empty() || static_cast<int64_t>(kBegin + from.size()) > room.bytes) continue;
        const auto at = static_cast<size_t>(room.offset);
        file.replace(at + 8, 8, "WNDLCOMM");
        file.replace(at + kBegin, from.size(), from);
        put_number(file, at + 40, binding);
        const auto bytes =
            std::clamp<uint64_t>(number_at<uint64_t>(file, at + 56), 64, static_cast<uint64_t>(room.bytes));
        put_number(file, at, sum_of_text(std::string_view(file).substr(at + 8, bytes - 8)));
    }
    return file;
}

std::string sealed_log(std::string_view bytes) {
    std::string log(bytes);
    constexpr size_t kPrelude = 48, kRecord = 32;
    const auto text_bytes = number_at<uint64_t>(log, 16);
    if (log.size() < kPrelude || text_bytes > log.size() - kPrelude) return log;
    const std::string_view text = std::string_view(log).substr(kPrelude, text_bytes);
    uint64_t sum = sum_of_text(log.substr(0, 24) + std::string(text));
    put_number(log, 24, sum);
    put_number(log, 40, sum_of_text(std::string_view(log).substr(24, 16)));
    constexpr std::string_view kKey = "\"directions\":";
    const size_t key = text.find(kKey);
    const size_t directions = key == text.npos ? 1 : leading_number(text.substr(key + kKey.size()));
    if (directions > log.size()) return log;
    const size_t record = kRecord + 4 * directions;
    for (size_t at = kPrelude + text_bytes; at + record <= log.size(); at += record) {
        std::string sealed(sizeof sum, '\0');
        put_number(sealed, 0, sum);
        sum = sum_of_text(sealed.append(log, at + 8, record - 8));
        put_number(log, at, sum);
    }
    return log;
}

std::string sealed_tokens(std::string_view bytes, std::string_view like) {
    std::string file(bytes);
    constexpr size_t kHeader = 144, kKey = 16, kSamples = 32, kIndex = 40, kNotes = 120;
    if (file.size() < kHeader || like.size() < kHeader) return file;
    file.replace(kKey, kKey, like.substr(kKey, kKey));
    const auto index = number_at<uint64_t>(file, kIndex), samples = number_at<uint64_t>(file, kSamples);
    if (index >= kHeader && index <= file.size()) {
        size_t row = kHeader;
        for (uint64_t i = 0; i < samples && index + 8 * i + 8 <= file.size(); ++i) {
            const auto length = number_at<uint32_t>(file, index + 8 * i);
            const size_t row_bytes = 4 * size_t{length} + (size_t{length} + 7) / 8;
            if (row_bytes > index - row) break;
            const auto sum = static_cast<uint32_t>(sum_of_text(std::string_view(file).substr(row, row_bytes)));
            put_number(file, index + 8 * i + 4, sum);
            row += row_bytes;
        }
        put_number(file, kNotes + 8, sum_of_text(std::string_view(file).substr(index)));
    }
    put_number(file, kHeader - 8, sum_of_text(std::string_view(file).substr(0, kHeader - 8)));
    return file;
}

}  // namespace windlass
