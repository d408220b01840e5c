#include "device/device.h"

#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "device/cuda/cuda_stream.h"
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
                                    {"fake", {.kind = DeviceKind::fake, .own_memory = true}},
                                    {"cuda", {.kind = DeviceKind::cuda, .own_memory = true}}};
constexpr std::string_view kIndexed = "cuda:";

// N of cuda:N.
std::optional<int> index_of(std::string_view text) {
    if (!text.starts_with(kIndexed)) return std::nullopt;
    text.remove_prefix(kIndexed.size());
    int index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size() || index < 0) return std::nullopt;
    return index;
}

}  // namespace

std::string_view device_kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu:
            return "cpu";
        case DeviceKind::fake:
            return "fake";
        case DeviceKind::cuda:
            return "cuda";
    }
    return "?";
}

std::optional<DeviceId> device_from_name(std::string_view text) {
    for (const auto& [name, device] : kDevices)
        if (text == name) return device;
    const std::optional<int> index = index_of(text);
    if (!index) return std::nullopt;
    return DeviceId{.kind = DeviceKind::cuda, .index = *index, .own_memory = true};
}

DeviceId parse_device(std::string_view text, std::string_view where) {
    if (const std::optional<DeviceId> device = device_from_name(text)) return *device;
    std::vector<std::string_view> names;
    for (const NamedDevice& each : kDevices) names.push_back(each.name);
    names.push_back("cuda:N");
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

std::unique_ptr<Device> make_device(DeviceId device) {
    if (device.kind == DeviceKind::cuda) return make_cuda_device(device.index);
    return std::make_unique<HostDevice>(device.kind);
}

std::string kernel_path(DeviceId device) {
    if (device.kind == DeviceKind::cuda) return make_device(device)->properties().kernel_path;
    return std::string(isa_name(cpu_isa()));
}

std::unique_ptr<Stream> make_stream(DeviceKind kind, int threads) {
    switch (kind) {
        case DeviceKind::cpu:
            return std::make_unique<CpuStream>(threads);
        case DeviceKind::fake:
            return std::make_unique<FakeStream>();
        case DeviceKind::cuda:
            break;
    }
    WINDLASS_CHECK(false, "{} does not compute in the host's memory", device_kind_name(kind));
    return nullptr;
}

}  // namespace windlass
