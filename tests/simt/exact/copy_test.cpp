// Weights of every stored type are made into what is computed with, with the CPU's bits.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>

#include "base/rng.h"
#include "perturb/stored.h"
#include "perturb/weight_op.h"
#include "tests/agree/visible.h"
#include "tests/simt/emulated.h"

namespace windlass {
namespace {

using agree::VisibleVector;

// All patterns of 8 and 16 bits among them that are numbers.
VisibleVector<std::byte> random_weights(const StoredType& stored, int64_t count) {
    VisibleVector<std::byte> bytes(static_cast<size_t>(stored_bytes(stored.dtype, count)));
    if (stored.dtype == DType::f8_e4m3 || stored.dtype == DType::f16 || stored.dtype == DType::bf16) {
        const auto width = static_cast<size_t>(dtype_bytes(stored.dtype));
        for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
            const uint32_t exponents = stored.dtype == DType::f16    ? 0x7c00
                                       : stored.dtype == DType::bf16 ? 0x7f80
                                                                     : 0x7f;
            const auto bits = static_cast<uint32_t>(i);
            const uint32_t number = (bits & exponents) == exponents ? 0 : bits;
            std::memcpy(bytes.data() + i * width, &number, width);
        }
        return bytes;
    }
    Random random(7, RandomStream::test);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = random.normal() * std::exp2(static_cast<float>(random.below(40)) - 30.0f);
    encode_stored(stored, DType::bf16, values, bytes);
    return bytes;
}

std::vector<std::byte> copied(DeviceKind kind, const StoredType& stored, DType compute, int64_t count) {
    const VisibleVector<std::byte> weights = random_weights(stored, count);
    VisibleVector<std::byte> out(static_cast<size_t>(stored_bytes(compute, count)), std::byte{0x5a});
    const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
    stream->launch([&](const Launch& launch) {
        kCopyWeights({.count = count},
                     {.type = weight_type(stored.dtype),
                      .scale_exponent = stored.scale_exponent,
                      .weights = weights.data(),
                      .probe_type = weight_type(compute),
                      .plain = out.data()},
                     launch.stream());
    });
    stream->synchronize();
    return {out.begin(), out.end()};
}

void expect_the_cpus_bits(std::span<const int64_t> counts) {
    for (const StoredType stored : {StoredType{DType::f32}, StoredType{DType::bf16}, StoredType{DType::f16},
                                    StoredType{DType::f8_e4m3, -3}, StoredType{DType::nf4}})
        for (const DType compute : {DType::f32, DType::bf16})
            for (const int64_t count : counts)
                EXPECT_TRUE(copied(DeviceKind::cpu, stored, compute, count) ==
                            copied(DeviceKind::cuda, stored, compute, count))
                    << dtype_name(stored.dtype) << " as " << dtype_name(compute) << ", " << count;
}

TEST(CopyWeights, HasTheCpusBits) {
    expect_the_cpus_bits(std::array{int64_t{1}, int64_t{63}, int64_t{65}, int64_t{70'001}});
}

TEST(SlowCopyWeights, HasTheCpusBits) {
    expect_the_cpus_bits(std::array{simt::many() + 77});
}

}  // namespace
}  // namespace windlass
