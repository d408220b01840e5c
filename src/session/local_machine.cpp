#include "session/local_machine.h"

#include <algorithm>

#include "base/units.h"
#include "op/gemm.h"
#include "session/machine_cache.h"

namespace windlass {
namespace {

// Only now: measuring the machine took memory, and gave it back. Beyond the limit there is nothing, as in a machine of
// that size.
void set_budgets(FileSystem& files, const Config& config, int threads, const DeviceProperties& device,
                 LocalMachine& local) {
    local.memory = memory_limit(files, threads);
    local.budgets = resolve_budgets(files, config, threads, local.memory, device);
    if (!local.memory.name.empty())
        local.machine.memory_bytes = std::min(local.machine.memory_bytes, local.memory.whole);
}

void measure_cuda(FileSystem& files, const Config& config, int threads, std::span<const KernelCase> cases,
                  LocalMachine& local) {
    // Its library is looked for before anything is measured: what is free then is what that leaves.
    static_cast<void>(product_path(local.device.kind));
    add_device(files, local.device, {}, local.machine);
    add_device_kernels(files, local.device, cases, local.machine);
    const DeviceProperties properties = make_device(local.device)->properties();
    local.note = fmt::format("{} is {}, {} free of {}", device_name(local.device), properties.name,
                             format_bytes(properties.free_bytes), format_bytes(properties.memory_bytes));
    set_budgets(files, config, threads, properties, local);
}

}  // namespace

LocalMachine local_machine(FileSystem& files, const Config& config, int threads, std::span<const KernelCase> cases) {
    LocalMachine local{.device = parse_device(config.device, "device"),
                       .machine = known_machine(files, config.ssd_dir, threads)};
    if (local.device.kind == DeviceKind::cuda) {
        measure_cuda(files, config, threads, cases, local);
    } else {
        add_kernels(files, config.ssd_dir, cases, threads, local.machine);
        set_budgets(files, config, threads, {}, local);
    }
    const Emulation emulation = emulation_of(config);
    local.machine = slowed(std::move(local.machine), emulation.link_bytes_per_s, emulation.disk_bytes_per_s);
    return local;
}

void forget_local_machine(FileSystem& files, const Config& config, int threads) {
    forget_machine(files, config.ssd_dir, threads);
    const DeviceId device = parse_device(config.device, "device");
    if (device.kind == DeviceKind::cuda) forget_device(files, device, threads);
}

Emulation emulation_of(const Config& config) {
    const auto rate = [](const ByteLimit& limit, std::string_view key) {
        return limit.text.empty() ? 0.0 : static_cast<double>(parse_bytes(limit.text, key));
    };
    return {.link_bytes_per_s = rate(config.link_rate, "link_rate"),
            .disk_bytes_per_s = rate(config.disk_rate, "disk_rate")};
}

}  // namespace windlass
