// host_memory.h: memory that the host and what it launches find at the same address.
#pragma once

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "device/device.h"

namespace windlass {

class HostMemory : public Memory {
  public:
    // Reserves and touches `bytes`. Throws UserError(no_fit) where the system refuses.
    explicit HostMemory(int64_t bytes) : buffer_(bytes, /*touch=*/true) {}
    int64_t bytes() const override { return buffer_.size(); }
    std::byte* address(const Launch&) const override { return buffer_.data(); }
    std::byte* address() const override { return buffer_.data(); }
    void read(int64_t offset, std::span<std::byte> to) const override {
        std::memcpy(to.data(), buffer_.data() + offset, to.size());
    }
    void write(int64_t offset, std::span<const std::byte> from) override {
        std::memcpy(buffer_.data() + offset, from.data(), from.size());
    }

  private:
    HugeBuffer buffer_;
};

}  // namespace windlass
