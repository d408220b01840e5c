// guarded.h: memory for a kernel, between two walls that tell when something was written outside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/math.h"
#include "tests/agree/visible.h"

namespace windlass::agree {

// 64-byte aligned. Filled with 0xff, a NaN in every type: whoever reads what nobody wrote will be seen.
class Guarded {
  public:
    static constexpr std::byte kFresh{0xff};

    explicit Guarded(int64_t bytes)
        : bytes_(static_cast<size_t>(bytes)), memory_(Visible<std::byte>().allocate(bytes_ + 3 * kWall)) {
        const auto begin = reinterpret_cast<uintptr_t>(memory_.get());
        offset_ = round_up<uintptr_t>(begin + kWall, kWall) - begin;
        std::memset(memory_.get(), static_cast<int>(kBrick), bytes_ + 3 * kWall);
        std::memset(data(), static_cast<int>(kFresh), bytes_);
    }
    Guarded(const Guarded&) = delete;
    Guarded(Guarded&&) = default;

    std::byte* data() { return memory_.get() + offset_; }
    const std::byte* data() const { return memory_.get() + offset_; }
    size_t size() const { return bytes_; }
    bool intact() const {
        const auto is_brick = [](std::byte byte) { return byte == kBrick; };
        const std::byte* const begin = memory_.get();
        return std::all_of(begin, data(), is_brick) &&
               std::all_of(data() + bytes_, begin + bytes_ + 3 * kWall, is_brick);
    }
    bool operator==(const Guarded& other) const {
        return bytes_ == other.bytes_ && std::memcmp(data(), other.data(), bytes_) == 0;
    }

  private:
    struct Release {
        void operator()(std::byte* memory) const { Visible<std::byte>().deallocate(memory, 0); }
    };
    static constexpr size_t kWall = 64;
    static constexpr std::byte kBrick{0x5a};
    size_t bytes_;
    size_t offset_ = 0;
    std::unique_ptr<std::byte, Release> memory_;  // no vector: most of what it does to each byte is to initialise it
};

}  // namespace windlass::agree
