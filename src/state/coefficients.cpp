#include "state/coefficients.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "format/checksum.h"
#include "model/rope_table.h"
#include "op/gemm.h"

namespace windlass {
namespace {

std::string hex(uint64_t sum) {
    return fmt::format("{:016x}", sum);
}

template <typename T>
void add_number(Xxh3Stream& sum, T number) {
    sum.add(std::as_bytes(std::span(&number, 1)));
}

std::string libm_sum() {
    constexpr int kSamples = 256;
    const volatile int first = 1;  // or the compiler might compute with a library of its own
    Xxh3Stream sum;
    for (int i = first; i <= kSamples; ++i) {
        const double share = (i - 0.5) / kSamples;
        add_number(sum, std::pow(0.999, i));
        add_number(sum, std::pow(1e4, -share));
        add_number(sum, std::pow(share, 1.5));
        add_number(sum, std::cos(std::numbers::pi * share));
        add_number(sum, std::exp(-8 * share));
        add_number(sum, std::log(share));
        add_number(sum, std::log(static_cast<float>(1 + i * share)));
    }
    return hex(sum.sum());
}

}  // namespace

Coefficients coefficients_of(const ModelSpec& model, DeviceKind device) {
    static const std::string libm = libm_sum();
    const std::vector<double> table = rope_table(model);
    const uint64_t rope = xxh3_64(std::as_bytes(std::span(table)));
    return {product_path(device), product_library(device), hex(rope), libm};
}

}  // namespace windlass
