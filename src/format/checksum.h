// checksum.h: the two checksums of our files.
//
// XXH3-64 guards everything that is ours; CRC-32C is what foreign formats (TensorBoard, gzip's relatives) ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace windlass {

// The bytes of a text, to be summed.
inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

// XXH3, 64 bits, seed 0.
uint64_t xxh3_64(std::span<const std::byte> bytes);

// The same over parts that come one after the other.
class Xxh3Stream {
  public:
    Xxh3Stream();
    ~Xxh3Stream();
    Xxh3Stream(const Xxh3Stream&) = delete;
    Xxh3Stream& operator=(const Xxh3Stream&) = delete;

    void add(std::span<const std::byte> bytes);
    uint64_t sum() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// CRC-32C (Castagnoli polynomial, reflected, initial value and final xor all ones): "123456789" gives 0xE3069283.
uint32_t crc32c(std::span<const std::byte> bytes);

// The form that TFRecord files store, so that a checksum of data with checksums inside stays strong.
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
    const uint32_t crc = crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace windlass
