#include "method/noise/exact.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "model/load.h"

namespace windlass {
namespace {

// Whole tiles of every kind of noise, small enough for a worker's stack.
constexpr int64_t kWalkElements = 4096;
constexpr double kThere = 1, kAcross = -2, kBack = 1;

constexpr IsaKernel<NoiseExactProbe> kProbe = {baseline::noise_exact_probe, avx2::noise_exact_probe,
                                               avx512::noise_exact_probe};

// A piece of the weights, walked along the direction away from memory.
struct Piece {
    alignas(64) std::array<std::byte, kWalkElements * 4> stored;
    std::array<float, kWalkElements> numbers;
};

void write_point(const ExactPoints& points, Piece& piece, int64_t offset, int64_t count, std::byte* to) {
    if (to == nullptr) return;
    const auto elements = static_cast<size_t>(count);
    const size_t bytes = elements * static_cast<size_t>(dtype_bytes(points.compute));
    std::byte* const out = to + offset * dtype_bytes(points.compute);
    if (points.stored == points.compute) {
        std::memcpy(out, piece.stored.data(), bytes);
        return;
    }
    const std::span<float> numbers = std::span(piece.numbers).first(elements);
    decode_numbers(points.stored,
                   std::span(piece.stored).first(elements * static_cast<size_t>(dtype_bytes(points.stored))), numbers);
    encode_numbers(points.compute, numbers, {out, bytes});
}

}  // namespace

void write_exact_points(const NoiseRun& run, const NoiseTerm& term, double eps, const ExactPoints& points,
                        Stream& stream) {
    WINDLASS_CHECK(run.kind == NoiseKind::gaussian || run.kind == NoiseKind::rademacher,
                   "MeZO's walk is along whole directions");
    const WeightType type = weight_type(points.stored);
    const int64_t base = round_down(run.element, kWalkElements), end = run.element + run.count;
    const auto distance = static_cast<float>(eps);
    cpu_team(stream).parallel_for(div_up(end - base, kWalkElements), [&, kernel = kProbe.pick()](int64_t index, int) {
        Piece piece;
        NoiseRun part = run;
        part.element = std::max(run.element, base + index * kWalkElements);
        part.count = std::min(end, base + (index + 1) * kWalkElements) - part.element;
        const int64_t offset = part.element - run.element, width = dtype_bytes(points.stored);
        std::memcpy(piece.stored.data(), points.weights + offset * width, static_cast<size_t>(part.count * width));
        kernel(part, term, static_cast<float>(kThere), distance, type, piece.stored.data());
        write_point(points, piece, offset, part.count, points.plus);
        if (points.minus == nullptr) return;
        kernel(part, term, static_cast<float>(kAcross), distance, type, piece.stored.data());
        write_point(points, piece, offset, part.count, points.minus);
    });
}

void take_exact_step(const NoiseRun& run, const NoiseTerm& term, double eps, const ExactRates& rates, WeightType type,
                     void* weights, Stream& stream) {
    for (const double scale : {kThere, kAcross, kBack}) exact_probe(run, term, scale, eps, type, weights, stream);
    exact_update(run, term, rates, type, weights, stream);
}

}  // namespace windlass
