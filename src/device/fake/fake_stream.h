// fake_stream.h: the device that computes nothing, so that schedules of any size can be run without hardware.
#pragma once

#include "device/device.h"

namespace windlass {

class FakeStream : public Stream {
  public:
    DeviceKind device() const override { return DeviceKind::fake; }
};

}  // namespace windlass
