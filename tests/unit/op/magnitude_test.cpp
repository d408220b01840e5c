// Magnitude beyond what the agreement test asks: where it changes nothing, what it leaves alone, and norms of zero.
#include <gtest/gtest.h>

#include <cmath>

#include "base/index.h"
#include "device/cpu/cpu_stream.h"
#include "op/magnitude.h"
#include "op/ops.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

// A call over values and weights in f32, B zeros and m the norms of W, as a run begins.
class MagnitudeCall {
  public:
    explicit MagnitudeCall(bool in_out) : in_out_(in_out) {
        spec_ = {.attrs = MagnitudeAttrs{in_out, 1.5},
                 .in = {{kOutputs}},
                 .weights = {{kOutputs}, w_shape(), {kRank, kInputs}, {kOutputs, kRank}, {kOutputs}}};
        kMagnitude.infer(spec_);
        for (const Shape& shape : spec_.weights) {
            numbers_.emplace_back(at(shape.numel()));
            for (size_t i = 0; i < numbers_.back().size(); ++i)
                numbers_.back()[i] = std::sin(0.7f * static_cast<float>(i) + static_cast<float>(numbers_.size()));
            gradients_.emplace_back(at(shape.numel()), kUntouched);
        }
        std::ranges::fill(numbers_[kMagnitudeB], 0.0f);
        for (int64_t output = 0; output < kOutputs; ++output) numbers_[kMagnitudeM][at(output)] = norm_of(output);
        for (size_t i = 0; i < x_.size(); ++i) x_[i] = std::cos(static_cast<float>(3 * i));
    }

    float& w(int64_t output, int64_t input) {
        return numbers_[kMagnitudeW][at(in_out_ ? input * kOutputs + output : output * kInputs + input)];
    }
    float norm_of(int64_t output) {
        double squares = 0;
        for (int64_t input = 0; input < kInputs; ++input) squares += std::pow(w(output, input), 2);
        return static_cast<float>(std::sqrt(squares));
    }

    void run(DiffMode mode) {
        std::vector<std::byte> scratch(at(kMagnitude.scratch_bytes(spec_, size_, mode)) + 64);
        void* begin = scratch.data();
        size_t space = scratch.size();
        std::align(64, 1, begin, space);
        const Tensor in(DType::f32, {kTokens, kOutputs}, x_.data()), out(DType::f32, {kTokens, kOutputs}, y_.data());
        std::vector<Weight> weights;
        std::vector<GradientSink> sinks;
        for (size_t i = 0; i < numbers_.size(); ++i) {
            weights.push_back({.base = Tensor(DType::f32, spec_.weights[i], numbers_[i].data())});
            sinks.push_back({Tensor(DType::f32, spec_.weights[i], gradients_[i].data()), true});
            if (i != kMagnitudeM && moves_) weights.back().direction = weights.back().base;
        }
        OpCall call{.spec = &spec_, .size = &size_, .in = {&in, 1}, .out = {&out, 1}, .weights = weights};
        call.grad_out = call.tangent_in = call.in;
        call.grad_in = call.tangent_out = call.out;
        call.sinks = sinks;
        call.scratch = {static_cast<std::byte*>(begin), space};
        CpuStream stream(2);
        kMagnitude.on(DeviceKind::cpu).of(mode)(call, stream);
    }

    static constexpr int64_t kOutputs = 70, kInputs = 37, kRank = 3, kTokens = 5;
    static constexpr float kUntouched = 9;
    Shape w_shape() const { return in_out_ ? Shape{kInputs, kOutputs} : Shape{kOutputs, kInputs}; }

    bool in_out_, moves_ = false;
    OpSpec spec_;
    OpSize size_{.rows = 1, .sequence_length = kTokens, .threads = 2};
    std::vector<std::vector<float>> numbers_, gradients_;
    std::vector<float> x_ = std::vector<float>(kTokens * kOutputs), y_ = x_;
};

TEST(Magnitude, ThatIsTheNormChangesNoBit) {
    for (const bool in_out : {false, true}) {
        MagnitudeCall call(in_out);
        on_every_isa([&] {
            for (const DiffMode mode : {DiffMode::forward, DiffMode::vjp, DiffMode::jvp}) {
                std::ranges::fill(call.y_, NAN);
                call.run(mode);
                EXPECT_EQ(call.y_, call.x_) << in_out;
            }
        });
    }
}

TEST(Magnitude, LeavesItsConstantsAlone) {
    MagnitudeCall call(false);
    call.run(DiffMode::vjp);
    for (size_t i = 0; i < call.gradients_.size(); ++i) {
        const bool is_written = call.gradients_[i] != std::vector<float>(call.gradients_[i].size(), 9.0f);
        EXPECT_EQ(is_written, i == kMagnitudeM) << i;
    }
    call.moves_ = true;
    call.run(DiffMode::jvp);
    EXPECT_EQ(call.y_, call.x_);
}

TEST(Magnitude, OfANormOfZeroIsTheBiasAlone) {
    for (const bool in_out : {false, true}) {
        MagnitudeCall call(in_out);
        constexpr int64_t kZero = 65;
        for (int64_t input = 0; input < MagnitudeCall::kInputs; ++input) call.w(kZero, input) = 0;
        const float bias = call.numbers_[kMagnitudeBias][at(kZero)];
        for (int64_t t = 0; t < MagnitudeCall::kTokens; ++t) call.x_[at(t * MagnitudeCall::kOutputs + kZero)] = bias;
        call.run(DiffMode::forward);
        EXPECT_EQ(call.y_, call.x_);
        call.run(DiffMode::vjp);
        EXPECT_EQ(call.y_[at(kZero)], 0);
        EXPECT_EQ(call.gradients_[kMagnitudeM][at(kZero)], 0);
        EXPECT_TRUE(std::ranges::all_of(call.y_, [](float number) { return std::isfinite(number); }));
    }
}

// The norm is that of what the sum leaves: here of 2^-12 in each place, where W and s B A are of the size of 1.
TEST(Magnitude, NormsOfWhatCancelsAreExact) {
    MagnitudeCall call(false);
    constexpr float kLeft = 0x1p-12f;
    for (int64_t output = 0; output < MagnitudeCall::kOutputs; ++output) {
        std::fill_n(call.numbers_[kMagnitudeB].begin() + output * MagnitudeCall::kRank, MagnitudeCall::kRank, 0.0f);
        call.numbers_[kMagnitudeB][at(output * MagnitudeCall::kRank)] = -2;
        call.numbers_[kMagnitudeM][at(output)] = kLeft * std::sqrt(static_cast<float>(MagnitudeCall::kInputs));
        for (int64_t input = 0; input < MagnitudeCall::kInputs; ++input) {
            call.numbers_[kMagnitudeA][at(input)] = 0.25f;
            call.w(output, input) = 0.75f + kLeft;
        }
    }
    call.run(DiffMode::forward);
    EXPECT_EQ(call.y_, call.x_);
}

TEST(Magnitude, WantsFactorsOfItsMatrix) {
    MagnitudeCall call(true);
    const auto refuses = [&](size_t weight, const Shape& shape, const char* why) {
        OpSpec spec = call.spec_;
        spec.weights[weight] = shape;
        EXPECT_DEATH(kMagnitude.infer(spec), why);
    };
    refuses(kMagnitudeW, {70, 37}, "magnitude of 70 columns by a matrix");
    refuses(kMagnitudeA, {3, 36}, "add to no matrix");
    refuses(kMagnitudeB, {70, 4}, "add to no matrix");
    refuses(kMagnitudeM, {69}, "magnitude of 70 columns by a vector");
    refuses(kMagnitudeBias, {71}, "magnitude of 70 columns by a vector");
}

}  // namespace
}  // namespace windlass
