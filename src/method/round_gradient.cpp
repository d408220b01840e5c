#include "method/round_gradient.h"

#include <algorithm>
#include <array>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/param_kernel.h"
#include "method/round_gradient_cuda.h"
#include "method/round_gradient_kernel.h"

namespace windlass {
namespace {

// What a worker takes at a time: a quarter MiB of sums.
constexpr int64_t kPieceGradients = int64_t{1} << 16;

uint16_t* scales_behind(std::byte* narrow, GradientFormat format, int64_t count) {
    if (narrow == nullptr || gradient_block(format) == 1) return nullptr;
    return reinterpret_cast<uint16_t*>(narrow + gradient_scales_offset(format, count));
}

GradientLoop* rounding_loop(GradientFormat format) {
    static constexpr IsaKernel<GradientLoop> kBf16 = {baseline::round_to_bf16, avx2::round_to_bf16,
                                                      avx512::round_to_bf16},
                                             kI8 = {baseline::round_to_i8, avx2::round_to_i8, avx512::round_to_i8},
                                             kI4 = {baseline::round_to_i4, avx2::round_to_i4, avx512::round_to_i4};
    return format == GradientFormat::bf16 ? kBf16.pick() : format == GradientFormat::i8 ? kI8.pick() : kI4.pick();
}

WidenLoop* widening_loop(GradientFormat format) {
    static constexpr IsaKernel<WidenLoop> kBf16 = {baseline::widen_bf16, avx2::widen_bf16, avx512::widen_bf16},
                                          kI8 = {baseline::widen_i8, avx2::widen_i8, avx512::widen_i8},
                                          kI4 = {baseline::widen_i4, avx2::widen_i4, avx512::widen_i4};
    return format == GradientFormat::bf16 ? kBf16.pick() : format == GradientFormat::i8 ? kI8.pick() : kI4.pick();
}

// Bytes of the codes before an element, with which a block begins.
int64_t codes_before(GradientFormat format, int64_t element) {
    return format == GradientFormat::bf16 ? 2 * element : format == GradientFormat::i8 ? element : element / 2;
}

GradientNoise noise_of(const RoundGradient& call, int64_t begin) {
    return {.seed = call.step->seed,
            .block = static_cast<uint64_t>(call.element + begin) / 4,
            .stream = static_cast<uint32_t>(RandomStream::gradients),
            .step = static_cast<uint32_t>(call.step->step)};
}

uint8_t* codes_at(std::byte* narrow, GradientFormat format, int64_t element) {
    return narrow == nullptr ? nullptr : reinterpret_cast<uint8_t*>(narrow) + codes_before(format, element);
}

}  // namespace

void round_gradient(const RoundGradient& call, Stream& stream) {
    if (call.format == GradientFormat::f32) {
        if (call.narrow != nullptr) stream.copy(call.narrow, call.sum, 4 * call.count);
        return;
    }
    WINDLASS_CHECK(call.element % kEightBitGradients == 0, "gradient {} begins inside a block", call.element);
    uint16_t* const scales = scales_behind(call.narrow, call.format, call.count);
    if (stream.device() == DeviceKind::cuda) {
        kRoundGradientCuda(
            {call.format, noise_of(call, 0), {call.count, call.sum, codes_at(call.narrow, call.format, 0), scales}},
            stream);
        return;
    }
    GradientLoop* const loop = rounding_loop(call.format);
    const int64_t block = gradient_block(call.format);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceGradients), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceGradients;
        loop(noise_of(call, begin), {.count = std::min(kPieceGradients, call.count - begin),
                                     .sum = call.sum + begin,
                                     .narrow = codes_at(call.narrow, call.format, begin),
                                     .scales = scales == nullptr ? nullptr : scales + begin / block});
    });
}

namespace {

void round_gradient_of(const ParamCall& call, Stream& stream) {
    round_gradient({.format = call.format,
                    .step = call.step,
                    .element = call.element,
                    .count = call.count,
                    .sum = call.gradient,
                    .narrow = call.narrow},
                   stream);
}

}  // namespace

// Read and written in place.
const ParamKernel kRoundGradient{.name = "round",
                                 .uses = {{ParamSlot::gradient, Access::update}, {ParamSlot::narrow, Access::write}},
                                 .bytes_per_element = 8,
                                 .cells = {round_gradient_of, nullptr, round_gradient_of}};

void widen_gradient(const WidenGradient& call, Stream& stream) {
    if (call.format == GradientFormat::f32) {
        stream.copy(call.wide, call.narrow, 4 * call.count);
        return;
    }
    std::byte* const narrow = const_cast<std::byte*>(call.narrow);  // only read
    const uint16_t* const scales = scales_behind(narrow, call.format, call.count);
    if (stream.device() == DeviceKind::cuda) {
        kWidenGradientCuda({call.format, {call.count, codes_at(narrow, call.format, 0), scales, call.wide}}, stream);
        return;
    }
    WidenLoop* const loop = widening_loop(call.format);
    const int64_t block = gradient_block(call.format);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceGradients), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceGradients;
        loop({.count = std::min(kPieceGradients, call.count - begin),
              .narrow = codes_at(narrow, call.format, begin),
              .scales = scales == nullptr ? nullptr : scales + begin / block,
              .wide = call.wide + begin});
    });
}

}  // namespace windlass
