#include <algorithm>
#include <array>
#include <limits>

#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "model/load.h"
#include "perturb/cuda_kernels.h"
#include "perturb/noise_checks.h"
#include "perturb/weight_op.h"

namespace windlass {
namespace {

constexpr IsaKernel<Nf4Copy> kNf4Copy = {baseline::nf4_copy, avx2::nf4_copy, avx512::nf4_copy};

DType dtype_of(WeightType type) {
    static constexpr std::array kTypes = {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::nf4};
    return kTypes[static_cast<size_t>(type)];
}

// Piece by piece, each of whole blocks.
void copy_cpu(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    constexpr int64_t kPiece = 4096;
    const StoredType stored{dtype_of(pass.type), pass.scale_exponent};
    const DType compute = dtype_of(pass.probe_type);
    WINDLASS_CHECK(compute == DType::f32 || compute == DType::bf16, "what is computed with is f32 or bf16");
    auto* const out = static_cast<std::byte*>(pass.plain);
    cpu_team(stream).parallel_for(div_up(run.count, kPiece), [&](int64_t piece, int) {
        const int64_t first = piece * kPiece, count = std::min(kPiece, run.count - first);
        const std::byte* const from = static_cast<const std::byte*>(pass.weights) + stored_bytes(stored.dtype, first);
        std::byte* const to = out + first * dtype_bytes(compute);
        if (stored.dtype == DType::nf4) return kNf4Copy.pick()(from, count, pass.probe_type, to);
        std::array<float, kPiece> numbers;
        const std::span<float> some(numbers.data(), static_cast<size_t>(count));
        decode_stored(stored, {from, static_cast<size_t>(stored_bytes(stored.dtype, count))}, 0, some);
        encode_numbers(compute, some, {to, static_cast<size_t>(count * dtype_bytes(compute))});
    });
}

constexpr WeightKernel kCopyCpu = copy_cpu;

std::vector<WeightCase> cases() {
    std::vector<WeightCase> made;
    for (const DType compute : {DType::f32, DType::bf16}) {
        for (const StoredType stored : {StoredType{DType::f32}, StoredType{DType::bf16}, StoredType{DType::f16},
                                        StoredType{DType::f8_e4m3, -3}, StoredType{DType::nf4}})
            made.push_back({.name = fmt::format("{}_as_{}", dtype_name(stored.dtype), dtype_name(compute)),
                            .stored = stored,
                            .compute = compute});
    }
    return made;
}

}  // namespace

void WeightOp::operator()(const NoiseRun& run, const NoisePass& pass, Stream& stream) const {
    const WeightKernel* const kernel = cells[static_cast<size_t>(stream.device())];
    WINDLASS_CHECK(kernel != nullptr && *kernel != nullptr, "{} has no kernel for this device", name);
    check_call(run, pass);
    (*kernel)(run, pass, stream);
}

constinit const WeightOp kCopyWeights = {.name = "copy",
                                         .draws = [](const WeightWork&) { return 0.0; },
                                         .cases = cases,
                                         .cells = {&kCopyCpu, nullptr, &kCopyWeightsCuda}};

int64_t step_terms_max(DeviceKind device) {
    return device == DeviceKind::cuda ? kTermsMax : std::numeric_limits<int64_t>::max();
}

std::span<const WeightOp* const> all_weight_ops() {
    static constexpr std::array kOps = {&kCopyWeights, &kPerturbWeights, &kWriteDirection, &kWriteFactors};
    return kOps;
}

}  // namespace windlass
