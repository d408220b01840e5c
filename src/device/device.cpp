#include "device/device.h"

#include "base/error.h"
#include "device/cpu/cpu_stream.h"
#include "device/fake/fake_stream.h"

namespace windlass {

std::string_view device_kind_name(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cpu:
            return "cpu";
        case DeviceKind::fake:
            return "fake";
    }
    return "?";
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
