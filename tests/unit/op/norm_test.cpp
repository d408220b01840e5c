// The norms beyond what the agreement test asks: what is not wanted, what is far from zero.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "op/ops.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

// One op over values of [4, 8] in f32, weights of one and zero.
class Norm : public testing::TestWithParam<const OpRecord*> {
  protected:
    static constexpr int64_t kRows = 4, kCols = 8;

    Norm() {
        const bool layer = GetParam() == &kLayerNorm;
        if (layer) {
            spec_ = {.attrs = LayerNormAttrs{}, .in = {{kCols}}, .weights = {{kCols}, {kCols}}};
        } else {
            spec_ = {.attrs = RmsNormAttrs{}, .in = {{kCols}}, .weights = {{kCols}}};
        }
        GetParam()->infer(spec_);
        for (size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(static_cast<float>(i * i));
        saved_numbers_.resize(static_cast<size_t>(kRows * spec_.saved[0].cols));
        saved_ = Tensor(DType::f32, {kRows, spec_.saved[0].cols}, saved_numbers_.data());
        weights_ = {{Tensor(DType::f32, {kCols}, ones_.data())}, {Tensor(DType::f32, {kCols}, zeros_.data())}};
        call_.spec = &spec_;
        call_.size = &size_;
        call_.in = {&in_, 1};
        call_.out = {&out_, 1};
        call_.saved = {&saved_, 1};
        call_.weights = {weights_.data(), spec_.weights.size()};
        call_.grad_out = {&grad_out_, 1};
        call_.grad_in = {&grad_in_, 1};
        call_.sinks = {sinks_.data(), spec_.weights.size()};
        void* begin = scratch_.data();
        size_t space = scratch_.size();
        std::align(64, 1, begin, space);
        call_.scratch = {static_cast<std::byte*>(begin), space};
    }

    const OpKernels& kernels() const { return *GetParam()->on(DeviceKind::cpu).kernels; }

    std::vector<float> x_ = std::vector<float>(kRows * kCols), y_ = x_, dx_ = x_;
    std::vector<float> dy_ = std::vector<float>(kRows * kCols, 0.5f);
    std::vector<float> ones_ = std::vector<float>(kCols, 1.0f), zeros_ = std::vector<float>(kCols, 0.0f);
    std::vector<float> saved_numbers_;
    std::vector<std::byte> scratch_ = std::vector<std::byte>(1 << 16);
    Tensor in_{DType::f32, {kRows, kCols}, x_.data()}, out_{DType::f32, {kRows, kCols}, y_.data()};
    Tensor grad_out_{DType::f32, {kRows, kCols}, dy_.data()}, grad_in_{DType::f32, {kRows, kCols}, dx_.data()}, saved_;
    std::vector<Weight> weights_;
    std::array<GradientSink, 2> sinks_;
    OpSpec spec_;
    OpSize size_{.rows = 1, .sequence_length = kRows, .threads = 2};
    CpuStream stream_{1};
    OpCall call_;
};

TEST_P(Norm, ForwardNeedNotKeepItsMoments) {
    kernels().forward(call_, stream_);
    const std::vector<float> kept = y_;
    saved_.data = nullptr;
    std::fill(y_.begin(), y_.end(), 0.0f);
    kernels().forward(call_, stream_);
    EXPECT_EQ(y_, kept);
}

TEST_P(Norm, GradientsThatNobodyWantsAreNotWritten) {
    kernels().forward(call_, stream_);
    grad_in_.data = nullptr;
    std::vector<float> gradient(kCols, 9.0f);
    sinks_[0] = {Tensor(DType::f32, {kCols}, gradient.data()), true};
    kernels().vjp(call_, stream_);
    EXPECT_NE(gradient[0], 9.0f);
    EXPECT_EQ(dx_, std::vector<float>(kRows * kCols, 0.0f));
}

TEST_P(Norm, FrozenWeightsHaveNoTangent) {
    const Tensor tangent_in = grad_out_, tangent_out = grad_in_;
    call_.tangent_in = {&tangent_in, 1};
    call_.tangent_out = {&tangent_out, 1};
    kernels().jvp(call_, stream_);
    const std::vector<float> frozen = dx_;
    weights_[0].direction = Tensor(DType::f32, {1, kCols}, zeros_.data());
    kernels().jvp(call_, stream_);
    EXPECT_EQ(dx_, frozen);
}

TEST_P(Norm, AnAbsentTangentIsZero) {
    const Tensor tangent_in{}, tangent_out = grad_in_;
    call_.tangent_in = {&tangent_in, 1};
    call_.tangent_out = {&tangent_out, 1};
    weights_[0].direction = Tensor(DType::f32, {1, kCols}, ones_.data());
    kernels().jvp(call_, stream_);
    kernels().forward(call_, stream_);
    for (size_t i = 0; i < dx_.size(); ++i) EXPECT_NEAR(dx_[i], y_[i], 1e-6);  // the weights are one, too
}

TEST_P(Norm, ScratchTooSmallIsOurBug) {
    call_.scratch = call_.scratch.first(64);
    EXPECT_DEATH(kernels().forward(call_, stream_), "bytes of scratch");
}

// A large mean cancels: the deviations of 4096 + {0, 1} are exact in f32.
TEST_P(Norm, LayersSurviveALargeMean) {
    if (GetParam() != &kLayerNorm) return;  // rms_norm subtracts nothing
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = 4096.0f + static_cast<float>(i % 2);
    on_every_isa([&] {
        kernels().forward(call_, stream_);
        for (size_t i = 0; i < y_.size(); ++i) EXPECT_NEAR(y_[i], i % 2 == 0 ? -1.0f : 1.0f, 3e-5);
    });
}

INSTANTIATE_TEST_SUITE_P(Both, Norm, testing::Values(&kRmsNorm, &kLayerNorm),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace windlass
