#include "schedule/machine.h"

#include <algorithm>

namespace windlass {
namespace {

// Where nothing was measured: a wake-up of a sleeping thread, and a launch on a GPU.
constexpr double kTaskSeconds = 10e-6;
constexpr double kKernelSeconds = 5e-6;
constexpr double kHoursPerYear = 365.25 * 24;

void set_default(double& number, double value) {
    if (number == 0) number = value;
}

// A narrow product does two operations per row on each weight that it reads.
double narrow_bound(double large, double memory_bytes_per_s, double weight_bytes) {
    const double operations_per_byte = 2.0 * kNarrowRows / weight_bytes;
    return memory_bytes_per_s > 0 ? std::min(large, operations_per_byte * memory_bytes_per_s) : large;
}

void complete_products(Machine& m) {
    set_default(m.gemm_bf16_flops, m.gemm_f32_flops);
    set_default(m.gemm_f32_flops, m.gemm_bf16_flops / 2);
    set_default(m.narrow_bf16_flops, narrow_bound(m.gemm_bf16_flops, m.device_memory_bytes_per_s, 2));
    set_default(m.narrow_f32_flops, narrow_bound(m.gemm_f32_flops, m.device_memory_bytes_per_s, 4));
    set_default(m.attention_bf16_flops, m.gemm_bf16_flops / 2);
    set_default(m.attention_f32_flops, m.gemm_f32_flops / 2);
}

// A copy inside one memory reads and writes every byte: half of the rate arrives, whichever way it goes.
void complete_link(Machine& m) {
    if (m.unified_memory) set_default(m.link_up_bytes_per_s, m.memory_bytes_per_s / 2);
    set_default(m.link_down_bytes_per_s, m.link_up_bytes_per_s);
    const double sum = m.link_up_bytes_per_s + m.link_down_bytes_per_s;
    set_default(m.link_both_bytes_per_s, m.unified_memory ? std::min(sum, m.memory_bytes_per_s / 2) : sum);
}

}  // namespace

double Machine::gemm_flops(DType compute, GemmShape shape) const {
    const bool bf16 = compute == DType::bf16;
    const double large = bf16 ? gemm_bf16_flops : gemm_f32_flops;
    double own = 0;
    if (shape == GemmShape::narrow) own = bf16 ? narrow_bf16_flops : narrow_f32_flops;
    if (shape == GemmShape::attention) own = bf16 ? attention_bf16_flops : attention_f32_flops;
    return own > 0 ? own : large;
}

Machine completed(Machine m) {
    if (m.unified_memory) set_default(m.device_memory_bytes_per_s, m.memory_bytes_per_s);
    complete_products(m);
    complete_link(m);
    // Reading and writing in turns: what a drive does that cannot do both at once.
    const double read = m.disk_read_bytes_per_s, write = m.disk_write_bytes_per_s;
    if (read > 0 && write > 0) set_default(m.disk_mixed_bytes_per_s, 2 * read * write / (read + write));
    if (read > 0) m.drives = std::max(m.drives, 1);
    set_default(m.update_bytes_per_s, m.memory_bytes_per_s);
    // Traffic at full rate takes its part of the memory; at worst the two share it.
    const double traffic = m.link_both_bytes_per_s + m.disk_mixed_bytes_per_s;
    const double left = m.memory_bytes_per_s > 0 ? 1 - traffic / m.memory_bytes_per_s : 1;
    set_default(m.one_thread_gain, 1.0);
    set_default(m.update_busy_factor, std::max(0.5, left));
    set_default(m.task_seconds, kTaskSeconds);
    set_default(m.kernel_seconds, kKernelSeconds);
    return m;
}

Machine slowed(Machine machine, double link_bytes_per_s, double disk_bytes_per_s) {
    const auto limit = [](double& rate, double most) { rate = most > 0 && (rate == 0 || most < rate) ? most : rate; };
    for (double* way : {&machine.link_up_bytes_per_s, &machine.link_down_bytes_per_s}) limit(*way, link_bytes_per_s);
    limit(machine.link_both_bytes_per_s, 2 * link_bytes_per_s);
    for (double* way :
         {&machine.disk_read_bytes_per_s, &machine.disk_write_bytes_per_s, &machine.disk_mixed_bytes_per_s})
        limit(*way, disk_bytes_per_s);
    return machine;
}

double hourly_price(const Machine& machine) {
    if (machine.price_per_hour > 0) return machine.price_per_hour;
    return machine.service_years > 0 ? machine.purchase_price / (machine.service_years * kHoursPerYear) : 0;
}

double tokens_per_money(const Machine& machine, double tokens_per_s) {
    const double price = hourly_price(machine);
    return price > 0 ? tokens_per_s * 3600 / price : 0;
}

double drive_wear(const Machine& machine, double written_bytes) {
    return machine.endurance_bytes > 0 ? written_bytes / machine.endurance_bytes : 0;
}

}  // namespace windlass
