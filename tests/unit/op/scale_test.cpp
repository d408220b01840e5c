// Scale beyond what the agreement test asks: what is not wanted, what is not read, and its bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/cpu/cpu_stream.h"
#include "op/ops.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

// Over values of [150, 5] in f32: three partial gradients. The factor is no f32.
class Scale : public testing::Test {
  protected:
    static constexpr int64_t kRows = 150, kCols = 5;
    static constexpr double kFactor = 0.3;

    Scale() {
        for (size_t i = 0; i < x_.size(); ++i) {
            x_[i] = std::sin(static_cast<float>(i));
            dy_[i] = std::cos(static_cast<float>(3 * i));
        }
        for (size_t c = 0; c < w_.size(); ++c) {
            w_[c] = 1.0f / static_cast<float>(c + 3);
            direction_[c] = std::cos(static_cast<float>(c));
        }
        kScale.infer(spec_);
        call_.spec = &spec_;
        call_.size = &size_;
        call_.in = {&in_, 1};
        call_.out = {&out_, 1};
        call_.weights = {&weight_, 1};
        call_.grad_out = {&grad_, 1};
        call_.grad_in = {&out_, 1};
        call_.sinks = {&sink_, 1};
        call_.tangent_in = {&grad_, 1};
        call_.tangent_out = {&out_, 1};
        void* begin = scratch_.data();
        size_t space = scratch_.size();
        std::align(64, 1, begin, space);
        call_.scratch = {static_cast<std::byte*>(begin), space};
    }

    void run(DiffMode mode) { kScale.on(DeviceKind::cpu).of(mode)(call_, stream_); }
    void drop_weight() {
        spec_.weights.clear();
        call_.weights = {};
        call_.sinks = {};
    }

    static size_t column(size_t i) { return i % kCols; }
    float slope(size_t i) const { return factor_ * w_[column(i)]; }
    // f(i) of each number.
    template <typename F>
    static std::vector<float> each(F f) {
        std::vector<float> numbers(kRows * kCols);
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = f(i);
        return numbers;
    }

    const float factor_ = static_cast<float>(kFactor);
    std::vector<float> x_ = std::vector<float>(kRows * kCols), y_ = x_, dy_ = x_;
    std::vector<float> w_ = std::vector<float>(kCols), direction_ = w_, dw_ = w_;
    std::vector<std::byte> scratch_ = std::vector<std::byte>(1 << 16);
    Tensor in_{DType::f32, {kRows, kCols}, x_.data()}, out_{DType::f32, {kRows, kCols}, y_.data()};
    Tensor grad_{DType::f32, {kRows, kCols}, dy_.data()};
    Weight weight_{.base = Tensor(DType::f32, {kCols}, w_.data())};
    GradientSink sink_;
    OpSpec spec_{.attrs = ScaleAttrs{kFactor}, .in = {{kCols}}, .weights = {{kCols}}};
    OpSize size_{.rows = 1, .sequence_length = kRows, .threads = 2};
    CpuStream stream_{1};
    OpCall call_;
};

TEST_F(Scale, TheFactorMultipliesFirstInEveryDirection) {
    EXPECT_NE(each([&](size_t i) { return slope(i) * x_[i]; }),
              each([&](size_t i) { return w_[column(i)] * (factor_ * x_[i]); }))
        << "these numbers show no order";
    on_every_isa([&] {
        run(DiffMode::forward);
        EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * x_[i]; }));
        run(DiffMode::vjp);
        EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * dy_[i]; }));
        weight_.direction = Tensor(DType::f32, {1, kCols}, direction_.data());
        run(DiffMode::jvp);
        EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * dy_[i] + factor_ * direction_[column(i)] * x_[i]; }));
    });
}

// Of 64 rows each, and those then added up.
TEST_F(Scale, TheWeightsGradientSumsChunksOfRowsInTheirOrder) {
    sink_ = {Tensor(DType::f32, {kCols}, dw_.data()), true};
    std::vector<float> want(kCols, 0.0f);
    for (size_t begin = 0; begin < x_.size(); begin += 64 * kCols) {
        std::vector<float> sums(kCols, 0.0f);
        for (size_t i = begin; i < std::min(x_.size(), begin + 64 * kCols); ++i)
            sums[column(i)] += factor_ * dy_[i] * x_[i];
        for (size_t c = 0; c < want.size(); ++c) want[c] += sums[c];
    }
    on_every_isa([&] {
        run(DiffMode::vjp);
        EXPECT_EQ(dw_, want);
        EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * dy_[i]; }));
    });
}

TEST_F(Scale, BackwardReadsTheInputForATrainedWeightAlone) {
    in_.data = nullptr;
    run(DiffMode::vjp);
    EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * dy_[i]; }));
    drop_weight();
    run(DiffMode::vjp);
    EXPECT_EQ(y_, each([&](size_t i) { return factor_ * dy_[i]; }));
}

TEST_F(Scale, GradientsThatNobodyWantsAreNotWritten) {
    sink_ = {Tensor(DType::f32, {kCols}, dw_.data()), true};
    run(DiffMode::vjp);
    const std::vector<float> gradient = dw_;
    std::fill(y_.begin(), y_.end(), 9.0f);
    std::fill(dw_.begin(), dw_.end(), 0.0f);
    out_.data = nullptr;
    run(DiffMode::vjp);
    EXPECT_EQ(dw_, gradient);
    EXPECT_EQ(y_, std::vector<float>(y_.size(), 9.0f));
}

// Zero times a number that is none would be none.
TEST_F(Scale, AWeightThatDoesNotMoveHasNoPartInTheTangent) {
    std::fill(x_.begin(), x_.end(), std::numeric_limits<float>::quiet_NaN());
    run(DiffMode::jvp);
    EXPECT_EQ(y_, each([&](size_t i) { return slope(i) * dy_[i]; }));
    drop_weight();
    run(DiffMode::jvp);
    EXPECT_EQ(y_, each([&](size_t i) { return factor_ * dy_[i]; }));
}

TEST_F(Scale, TheFactorMayBeRoundedToTheTypeOfTheComputation) {
    drop_weight();
    spec_.attrs = ScaleAttrs{.factor = kFactor, .rounds_factor = true};
    run(DiffMode::forward);
    EXPECT_EQ(y_, each([&](size_t i) { return factor_ * x_[i]; })) << "f32";
    size_.compute = DType::bf16;
    const float rounded = to_float(to_bf16(factor_));
    ASSERT_NE(rounded, factor_);
    run(DiffMode::forward);
    EXPECT_EQ(y_, each([&](size_t i) { return rounded * x_[i]; }));
    run(DiffMode::vjp);
    EXPECT_EQ(y_, each([&](size_t i) { return rounded * dy_[i]; }));
}

TEST_F(Scale, AnAbsentTangentIsZero) {
    grad_ = {};
    weight_.direction = Tensor(DType::f32, {1, kCols}, direction_.data());
    run(DiffMode::jvp);
    EXPECT_EQ(y_, each([&](size_t i) { return factor_ * direction_[column(i)] * x_[i]; }));
}

TEST_F(Scale, WantsAWeightForEachColumn) {
    spec_.weights = {{kCols + 1}};
    EXPECT_DEATH(kScale.infer(spec_), "scale of 5 columns by a weight");
}

}  // namespace
}  // namespace windlass
