// device.h: the nouns of whatever computes: DeviceId, Stream.
//
// A Stream is where kernels go, in order. On `cpu` a launch returns when the work is done; on a GPU it will return
// at once and an Event will tell. `fake` computes nothing: schedules are lowered, checked and simulated for it.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace windlass {

enum class DeviceKind : uint8_t { cpu, fake };
inline constexpr int kDeviceKinds = 2;

struct DeviceId {
    DeviceKind kind = DeviceKind::cpu;
    int index = 0;
    auto operator<=>(const DeviceId&) const = default;
};

std::string_view device_kind_name(DeviceKind kind);

class Stream {
  public:
    virtual ~Stream() = default;
    virtual DeviceKind device() const = 0;
    // Returns when everything launched so far is done.
    virtual void synchronize() = 0;
};

// A stream of this device; `threads` workers where the device is the CPU.
std::unique_ptr<Stream> make_stream(DeviceKind kind, int threads);

}  // namespace windlass
