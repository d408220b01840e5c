// weight_op.h: what happens to weights between where they are kept and where they are computed with: records, as op.h
// has them for what happens to activations.
//
// What an element becomes depends on its own index in the model and on nothing else: any cut of a call, any team and
// any device give the same bits. Kernels read what NoisePass names, and write `updated`, `plain`, `plus` and `minus`
// where they are given.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "perturb/factors.h"
#include "perturb/stored.h"

namespace windlass {

using WeightKernel = void (*)(const NoiseRun& run, const NoisePass& pass, Stream& stream);

// What decides how long a call takes beyond the bytes that it reads and writes, for each element.
struct WeightWork {
    Noise noise;  // what directions are drawn from
    DType stored = DType::bf16;
    double drawn = 0;   // directions drawn and applied, or written
    double sums = 0;    // directions of low rank that are applied, but not drawn
    double rounds = 0;  // times that it is rounded into what is kept
};

// A call of the tests: values come from a seed.
struct WeightCase {
    std::string name;
    StoredType stored;
    DType compute = DType::f32;
    Shape shape = {37, 192};
    Noise noise;
    int steps = 0;         // updates that are applied, and stored
    bool moments = false;  // each divided by the root of its second moment
    bool probes = false;   // pass.probe is given
    bool masks = false;    // the largest weights are left out
};

struct WeightOp {
    std::string_view name;
    // Random numbers for each element, counted as Gaussian ones (Machine::noise_per_s).
    double (*draws)(const WeightWork& work) = nullptr;
    std::vector<WeightCase> (*cases)() = nullptr;
    std::array<const WeightKernel*, kDeviceKinds> cells{};  // indexed by DeviceKind; null, or to null: none

    // On the stream's device, which has a kernel.
    void operator()(const NoiseRun& run, const NoisePass& pass, Stream& stream) const;
};

// plain <- the weights, in the type that is computed with: f32, or bf16 to the nearest, ties away from zero.
extern const WeightOp kCopyWeights;
// updated <- the weights after the pass's steps; plus, minus and plain <- what is computed with. One pass over memory
// (README.md, "Weights").
extern const WeightOp kPerturbWeights;
// plus <- c z, the direction of pass.probe.
extern const WeightOp kWriteDirection;
// plus <- the left factor of pass.probe's direction, times its coefficient, minus <- the right one: f32, of the run's
// whole matrix.
extern const WeightOp kWriteFactors;

// Terms of one step that a device's kernels take (NoiseStep::term_count).
int64_t step_terms_max(DeviceKind device);

// The list (all.cpp).
std::span<const WeightOp* const> all_weight_ops();

}  // namespace windlass
