// cpu_stream.h: the CPU as a device: a team of threads; a launch returns when the work is done.
#pragma once

#include "base/error.h"
#include "device/cpu/team.h"
#include "device/device.h"

namespace windlass {

class CpuStream : public Stream {
  public:
    explicit CpuStream(int threads) : team_(threads) {}
    DeviceKind device() const override { return DeviceKind::cpu; }
    Team& team() { return team_; }

  private:
    Team team_;
};

inline Team& cpu_team(Stream& stream) {
    WINDLASS_CHECK(stream.device() == DeviceKind::cpu, "a CPU kernel was launched on another device");
    return static_cast<CpuStream&>(stream).team();
}

}  // namespace windlass
