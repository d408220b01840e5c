// step_peak.h: the most that matrix products reach, which a step is measured by.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/team.h"
#include "measure.h"
#include "op/gemm.h"
#include "schedule/machine.h"

namespace windlass {

inline double gemm_peak(DType dtype, int threads) {
    constexpr int64_t kM = 1024, kN = 4096, kK = 4096;
    const int64_t size = dtype_bytes(dtype);
    HugeBuffer a(kM * kK * size, true), b(kN * kK * size, true), c(kM * kN * size, true);
    Random random(1, RandomStream::test);
    for (const HugeBuffer* buffer : {&a, &b}) {
        for (int64_t i = 0; i < buffer->size() / size; ++i) {
            const float x = random.normal();
            if (dtype == DType::f32)
                reinterpret_cast<float*>(buffer->data())[i] = x;
            else
                reinterpret_cast<bf16*>(buffer->data())[i] = to_bf16(x);
        }
    }
    Team team(threads);
    std::vector<double> rates;
    for (int round = 0; round < 12; ++round) {
        const int64_t start = now_ns();
        gemm({.a = Tensor(dtype, {kM, kK}, a.data()),
              .b = Tensor(dtype, {kN, kK}, b.data()),
              .c = Tensor(dtype, {kM, kN}, c.data()),
              .transpose_b = true},
             team);
        if (round >= 2) rates.push_back(2.0 * kM * kN * kK / seconds_since(start));
    }
    return median(std::move(rates));
}

// Of the products that the probe measured.
inline double card_peak(DType dtype, const Machine& machine) {
    return dtype == DType::bf16 ? machine.gemm_bf16_flops : machine.gemm_f32_flops;
}

}  // namespace windlass
