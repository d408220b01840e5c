// devices.h: the devices that a run computes with, by the index that lanes and tiers name them by.
#pragma once

#include <map>
#include <utility>

#include "base/error.h"
#include "device/device.h"

namespace windlass {

class Devices {
  public:
    // They outlive it.
    explicit Devices(std::map<int, Device*> by_index) : by_index_(std::move(by_index)) {}

    Device& of(int index) const {
        const auto found = by_index_.find(index);
        WINDLASS_CHECK(found != by_index_.end(), "no device {} was opened", index);
        return *found->second;
    }
    // Who gives memory of the host, which all of them reach.
    Device& first() const { return *by_index_.begin()->second; }
    const std::map<int, Device*>& by_index() const { return by_index_; }

  private:
    std::map<int, Device*> by_index_;
};

}  // namespace windlass
