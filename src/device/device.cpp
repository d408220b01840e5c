#include "device/device.h"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_stream.h"
#include "device/fake/fake_stream.h"
#include "device/host_memory.h"

namespace windlass {
namespace {

struct NamedDevice {
    std::string_view name;
    DeviceId device;
};

constexpr NamedDevice kDevices[] = {{"cpu", {DeviceKind::cpu}},
                                    {"cpu:emulate", {.kind = DeviceKind::cpu, .own_memory = true}},
                                    {"fake", {.kind = DeviceKind::fake, .own_memory = true}}};

}  // namespace

std::string_view device_kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu:
            return "cpu";
        case DeviceKind::fake:
            return "fake";
    }
    return "?";
}

DeviceId parse_device(std::string_view text, std::string_view where) {
    std::vector<std::string_view> names;
    for (const auto& [name, device] : kDevices) {
        if (text == name) return device;
        names.push_back(name);
    }
    throw UserError(ExitCode::usage, where, "there is no device \"{}\"", text)
        .hint(fmt::format("one of {}", fmt::join(names, ", ")));
}

std::string device_name(DeviceId device) {
    const bool emulated = device.kind == DeviceKind::cpu && device.own_memory;
    const std::string name = emulated ? "cpu:emulate" : std::string(device_kind_name(device.kind));
    return device.index == 0 ? name : fmt::format("{}:{}", name, device.index);
}

namespace {

// A device that computes in the host's memory.
class HostDevice : public Device {
  public:
    explicit HostDevice(DeviceKind kind) : kind_(kind) {}
    std::unique_ptr<Stream> make_stream(int threads) override { return windlass::make_stream(kind_, threads); }
    std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind) override { return std::make_unique<HostMemory>(bytes); }

  private:
    DeviceKind kind_;
};

}  // namespace

std::unique_ptr<Device> make_device(DeviceKind kind) {
    return std::make_unique<HostDevice>(kind);
}

std::unique_ptr<Stream> make_stream(DeviceKind kind, int threads) {
    switch (kind) {
        case DeviceKind::cpu:
            return std::make_unique<CpuStream>(threads);
        case DeviceKind::fake:
            return std::make_unique<FakeStream>();
    }
    WINDLASS_CHECK(false, "unknown device kind");
    return nullptr;
}

}  // namespace windlass
