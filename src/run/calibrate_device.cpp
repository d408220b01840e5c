#include "base/error.h"
#include "op/ops.h"
#include "run/calibrate.h"
#include "run/calibrate_parts.h"
#include "run/kernel_call.h"

namespace windlass {
namespace {

// Calls that are waited for together: a call's own time is what the device takes, not what waiting does.
constexpr int kCallsAtOnce = 4;

class DeviceCalibration {
  public:
    DeviceCalibration(Device& device, const DeviceProbe& probe)
        : device_(device), probe_(probe), stream_(device.make_stream(1)) {}

    double product_rate(DType dtype, int64_t tokens, int64_t inputs, int64_t outputs) {
        return rate(kLinear, {.attrs = LinearAttrs{}, .in = {{inputs}}, .weights = {{outputs, inputs}}}, tokens, dtype);
    }
    double attention_rate(DType dtype) {
        constexpr int64_t kHeadSize = 128;
        const int64_t cols = probe_.heads * kHeadSize;
        return rate(
            kAttention,
            {.attrs = AttentionAttrs{probe_.heads, probe_.heads, kHeadSize, 0.088}, .in = {{cols}, {cols}, {cols}}},
            probe_.attention_tokens, dtype);
    }
    // What a call costs the thread that launches it, or the device, whichever is more.
    double call_seconds() {
        constexpr int64_t kCols = 64, kRepeats = 200;
        KernelCall call(kAdd, {.in = {{kCols}, {kCols}}}, {.rows = 1, .sequence_length = 16, .compute = DType::bf16},
                        DiffMode::forward, device_, *stream_);
        return rounded(best_seconds([&] {
                           for (int64_t repeat = 0; repeat < kRepeats; ++repeat) call();
                           stream_->synchronize();
                       }) /
                       kRepeats);
    }
    // Read plus written.
    double copy_rate() {
        const std::unique_ptr<Memory> from = allocate(MemoryKind::device), to = allocate(MemoryKind::device);
        return 2 * one_way(*stream_, *to, *from);
    }
    // Each way of the link, both at once, and what they leave of the host's memory to its updates.
    void measure_link(Machine& machine) {
        const std::unique_ptr<Memory> host = allocate(MemoryKind::host), other_host = allocate(MemoryKind::host);
        const std::unique_ptr<Memory> card = allocate(MemoryKind::device), other_card = allocate(MemoryKind::device);
        const std::unique_ptr<Stream> other = device_.make_stream(1);
        machine.link_up_bytes_per_s = one_way(*stream_, *card, *host);
        machine.link_down_bytes_per_s = one_way(*stream_, *host, *card);
        const double both = best_seconds([&] {
            copy(*stream_, *card, *host);
            copy(*other, *other_host, *other_card);
            stream_->synchronize();
            other->synchronize();
        });
        // Both ways are not faster than each alone: more is noise.
        machine.link_both_bytes_per_s = std::min(rounded(2 * static_cast<double>(probe_.copy_bytes) / both),
                                                 machine.link_up_bytes_per_s + machine.link_down_bytes_per_s);
        const std::function<void()> traffic[] = {[&] { copy_now(*stream_, *card, *host); },
                                                 [&] { copy_now(*other, *other_host, *other_card); }};
        const std::unique_ptr<Stream> cpu = make_stream(DeviceKind::cpu, machine.threads);
        const double left = update_rates(*cpu, traffic).busy_factor;
        machine.update_busy_factor = machine.update_busy_factor > 0 ? std::min(machine.update_busy_factor, left) : left;
    }
    Stream& stream() { return *stream_; }

  private:
    double rate(const OpRecord& op, OpSpec spec, int64_t tokens, DType dtype) {
        KernelCall call(op, std::move(spec), {.rows = 1, .sequence_length = tokens, .compute = dtype},
                        DiffMode::forward, device_, *stream_);
        const double seconds = best_seconds([&] {
            for (int repeat = 0; repeat < kCallsAtOnce; ++repeat) call();
            stream_->synchronize();
        });
        return rounded(kCallsAtOnce * call.flops() / seconds);
    }
    std::unique_ptr<Memory> allocate(MemoryKind kind) {
        std::unique_ptr<Memory> memory = device_.allocate(probe_.copy_bytes, kind);
        fill_randomly(*memory, DType::f32);
        return memory;
    }
    void copy(Stream& stream, const Memory& to, const Memory& from) const {
        stream.launch([&](const Launch& launch) {
            launch.stream().copy(to.address(launch), from.address(launch), probe_.copy_bytes);
        });
    }
    void copy_now(Stream& stream, const Memory& to, const Memory& from) const {
        copy(stream, to, from);
        stream.synchronize();
    }
    double one_way(Stream& stream, const Memory& to, const Memory& from) const {
        const double seconds = best_seconds([&] { copy_now(stream, to, from); });
        return rounded(static_cast<double>(probe_.copy_bytes) / seconds);
    }

    Device& device_;
    const DeviceProbe& probe_;
    std::unique_ptr<Stream> stream_;
};

}  // namespace

void calibrate_device(Device& device, const DeviceProbe& probe, Machine& machine) {
    DeviceCalibration measured(device, probe);
    machine.unified_memory = false;
    machine.device_memory_bytes = device.properties().memory_bytes;
    machine.kernels.clear();
    machine.gemm_bf16_flops = measured.product_rate(DType::bf16, probe.tokens, probe.side, probe.side);
    machine.gemm_f32_flops = measured.product_rate(DType::f32, probe.tokens / 2, probe.side / 2, probe.side / 2);
    machine.narrow_bf16_flops = measured.product_rate(DType::bf16, kNarrowRows, probe.side, probe.narrow_outputs);
    machine.narrow_f32_flops = measured.product_rate(DType::f32, kNarrowRows, probe.side, probe.narrow_outputs);
    machine.attention_bf16_flops = measured.attention_rate(DType::bf16);
    machine.attention_f32_flops = measured.attention_rate(DType::f32);
    machine.kernel_seconds = measured.call_seconds();
    machine.device_memory_bytes_per_s = measured.copy_rate();
    measured.measure_link(machine);
    machine.device_updates = calibrate_update_kinds(device, measured.stream(), probe.update_rows);
    calibrate_noise(device, measured.stream(), probe.noise_rows, probe.noise_rows, machine);
}

}  // namespace windlass
