#include "format/checksum.h"

#include <isa-l/crc.h>
#include <xxhash.h>

#include <algorithm>
#include <climits>

namespace windlass {

uint64_t xxh3_64(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

uint32_t crc32c(std::span<const std::byte> bytes) {
    uint32_t crc = 0xffffffffu;
    while (!bytes.empty()) {  // the library counts bytes in an int and only reads, though its pointer is not const
        const size_t part = std::min<size_t>(bytes.size(), INT_MAX);
        auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
        crc = crc32_iscsi(data, static_cast<int>(part), crc);
        bytes = bytes.subspan(part);
    }
    return ~crc;
}

}  // namespace windlass
