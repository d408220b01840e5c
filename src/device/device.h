// device.h: the nouns of whatever computes: DeviceId, Stream.
//
// A Stream is where kernels go, in order. On `cpu` a launch returns when the work is done; on a GPU it will return
// at once and an Event will tell. `fake` computes nothing: schedules are lowered, checked and simulated for it.
// `cpu:emulate` computes as `cpu` does, with the same kernels, but in an arena of its own beside the host's: what moves
// up and down is really copied, so that all three tiers can be exercised where there is no GPU.
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
    bool own_memory = false;  // apart from the host's; else both are one arena, and moves up and down are nothing
    auto operator<=>(const DeviceId&) const = default;
};

std::string_view device_kind_name(DeviceKind kind);

// cpu | cpu:emulate | fake, which stands for a GPU and so has memory of its own. Other text is UserError(usage) at
// `where`, a configuration key or an option.
DeviceId parse_device(std::string_view text, std::string_view where);
// As parse_device reads it, followed by the index where that is not 0.
std::string device_name(DeviceId device);

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
