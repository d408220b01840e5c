// descriptor.h: a descriptor of the kernel, which its owner closes.
#pragma once

#include <unistd.h>

#include <utility>

namespace windlass {

class Descriptor {
  public:
    explicit Descriptor(int number = -1) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }

    int number() const { return number_; }
    bool is_open() const { return number_ >= 0; }
    int release() { return std::exchange(number_, -1); }

  private:
    int number_;
};

}  // namespace windlass
