#include "format/checksum.h"

#include <isa-l/crc.h>
#include <xxh_x86dispatch.h>  // the widest vectors that the processor has: two thirds faster, the same sums

#include <algorithm>
#include <climits>

namespace windlass {

uint64_t xxh3_64(std::span<const std::byte> bytes) {
    return XXH3_64bits_dispatch(bytes.data(), bytes.size());
}

struct Xxh3Stream::State {
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> of_library{XXH3_createState(), XXH3_freeState};
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
    if (state_->of_library == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state_->of_library.get());
}
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::add(std::span<const std::byte> bytes) {
    XXH3_64bits_update_dispatch(state_->of_library.get(), bytes.data(), bytes.size());
}
uint64_t Xxh3Stream::sum() const {
    return XXH3_64bits_digest(state_->of_library.get());
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
