// guarded.h: memory for a kernel, between two walls that tell when something was written outside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "tests/agree/visible.h"

namespace windlass::agree {

// 64-byte aligned. Filled with 0xff, a NaN in every type: whoever reads what nobody wrote will be seen.
class Guarded {
  public:
    static constexpr std::byte kFresh{0xff};

    explicit Guarded(int64_t bytes) : bytes_(static_cast<size_t>(bytes)), memory_(bytes_ + 3 * kWall, kFresh) {
        const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
        offset_ = round_up<uintptr_t>(begin + kWall, kWall) - begin;
        std::fill_n(memory_.begin(), offset_, kBrick);
        std::fill(memory_.begin() + static_cast<int64_t>(offset_ + bytes_), memory_.end(), kBrick);
    }
    Guarded(const Guarded&) = delete;
    Guarded(Guarded&&) = default;

    std::byte* data() { return memory_.data() + offset_; }
    const std::byte* data() const { return memory_.data() + offset_; }
    size_t size() const { return bytes_; }
    bool intact() const {
        const auto is_brick = [](std::byte byte) { return byte == kBrick; };
        const auto end = memory_.begin() + static_cast<int64_t>(offset_ + bytes_);
        return std::all_of(memory_.begin(), memory_.begin() + static_cast<int64_t>(offset_), is_brick) &&
               std::all_of(end, memory_.end(), is_brick);
    }
    bool operator==(const Guarded& other) const {
        return bytes_ == other.bytes_ && std::equal(data(), data() + bytes_, other.data());
    }

  private:
    static constexpr size_t kWall = 64;
    static constexpr std::byte kBrick{0x5a};
    size_t bytes_;
    size_t offset_ = 0;
    VisibleVector<std::byte> memory_;
};

}  // namespace windlass::agree
