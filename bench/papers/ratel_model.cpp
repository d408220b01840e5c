#include "papers/ratel_model.h"

#include <algorithm>

#include "base/math.h"
#include "base/units.h"

namespace windlass {
namespace {

// D7-P5510, 3.84 TB, data sheet.
constexpr double kDriveReadBytesPerS = 6.5e9;
constexpr double kDriveWriteBytesPerS = 3.4e9;

// Bytes per token and unit of width that the element-wise passes of a layer read and write. Forward: two norms (2 + 2
// each), two dropouts with their sums (4 + 3 each), gelu over four widths (8 + 8). Backward: norms (4 + 2 each),
// dropouts (3 + 2 each), sums (4 + 2 each), gelu (16 + 8), the gradients of biases (18).
constexpr double kForwardPassBytes = 38;
constexpr double kBackwardPassBytes = 76;

double square(const GptShape& shape) {
    return static_cast<double>(shape.width * shape.width);
}

// Queries with keys, and weights with values, half of each behind the causal mask.
double attention_seconds(const GptShape& shape, const Machine& machine) {
    const double flops = 2.0 * static_cast<double>(shape.sequence_length * shape.width);
    return flops / machine.gemm_flops(DType::bf16, GemmShape::attention);
}

double product_seconds(double flops, const Machine& machine) {
    return flops / machine.gemm_flops(DType::bf16);
}

double pass_seconds(double bytes_per_width, const GptShape& shape, const Machine& machine) {
    return bytes_per_width * static_cast<double>(shape.width) / machine.device_memory_bytes_per_s;
}

}  // namespace

LayerSeconds layer_seconds(const GptShape& shape, const Machine& machine) {
    const double products = product_seconds(24 * square(shape), machine);
    const double attention = attention_seconds(shape, machine);
    // Attention's backward forms the scores again: five products for two.
    return {.forward = products + attention + pass_seconds(kForwardPassBytes, shape, machine),
            .backward = 2 * products + 2.5 * attention + pass_seconds(kBackwardPassBytes, shape, machine)};
}

std::vector<KeptValue> kept_values(const GptShape& shape, const Machine& machine) {
    const double width = static_cast<double>(shape.width);
    const auto product = [&](double out_widths, double in_widths) {
        return KeptValue{kHalfBytes * out_widths * width,
                         product_seconds(2 * out_widths * in_widths * square(shape), machine)};
    };
    std::vector<KeptValue> values = {
        product(1, 4),
        product(1, 1),
        product(3, 1),
        product(4, 1),  // down, projection, queries to values, up
        {kHalfBytes * width, attention_seconds(shape, machine)},
    };
    std::stable_sort(values.begin(), values.end(),
                     [](const KeptValue& a, const KeptValue& b) { return a.seconds * b.bytes > b.seconds * a.bytes; });
    return values;
}

double DriveArray::read_bytes_per_s() const {
    return std::min(drives * yield * kDriveReadBytesPerS, socket_bytes_per_s);
}

double DriveArray::write_bytes_per_s() const {
    return std::min(drives * yield * kDriveWriteBytesPerS, socket_bytes_per_s);
}

int64_t batch_count(int64_t file_bytes) {
    return div_up(file_bytes, kBatchBytes);
}

double DriveArray::read_cost_bytes(int64_t file_bytes) const {
    const double latency = static_cast<double>(batch_count(file_bytes)) * batch_latency_s;
    return static_cast<double>(file_bytes) + latency * read_bytes_per_s();
}

double DriveArray::write_cost_bytes(int64_t file_bytes) const {
    const double latency = static_cast<double>(batch_count(file_bytes)) * batch_latency_s;
    return static_cast<double>(file_bytes) + latency * write_bytes_per_s();
}

Machine with_drives(Machine machine, const DriveArray& array) {
    machine.drives = array.drives;
    machine.disk_read_bytes_per_s = array.read_bytes_per_s();
    machine.disk_write_bytes_per_s = array.write_bytes_per_s();
    machine.disk_mixed_bytes_per_s = 0;  // reads and writes are never under way at once
    return completed(std::move(machine));
}

Machine with_late_drives(Machine machine, const DriveArray& array) {
    const auto late = [&](double rate) { return kBatchBytes / (kBatchBytes / rate + array.batch_latency_s); };
    machine = with_drives(std::move(machine), array);
    machine.disk_read_bytes_per_s = late(machine.disk_read_bytes_per_s);
    machine.disk_write_bytes_per_s = late(machine.disk_write_bytes_per_s);
    machine.disk_mixed_bytes_per_s = 0;
    return completed(std::move(machine));
}

}  // namespace windlass
