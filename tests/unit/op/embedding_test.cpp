#include <gtest/gtest.h>

#include "device/cpu/cpu_stream.h"
#include "op/ops.h"

namespace windlass {
namespace {

// A table of 4 x 2 in f32 and a batch of 3 tokens.
class Embedding : public testing::Test {
  protected:
    Embedding() {
        kEmbedding.infer(spec_);
        scratch_.resize(static_cast<size_t>(kEmbedding.scratch_bytes(spec_, size_, DiffMode::forward)) + 64);
        call_.spec = &spec_;
        call_.size = &size_;
        call_.batch = &batch_;
        call_.weights = {&weight_, 1};
        call_.out = {&out_, 1};
        call_.grad_out = {&grad_out_, 1};
        call_.sinks = {&sink_, 1};
        void* begin = scratch_.data();
        size_t space = scratch_.size();
        std::align(64, 1, begin, space);
        call_.scratch = {static_cast<std::byte*>(begin), space};
    }

    const OpKernels& kernels() const { return *kEmbedding.on(DeviceKind::cpu).kernels; }

    std::vector<int32_t> tokens_ = {2, 0, 2};
    std::vector<int32_t> positions_ = {0, 1, 2};
    std::vector<float> table_ = {0, 1, 10, 11, 20, 21, 30, 31};
    std::vector<float> out_numbers_ = std::vector<float>(6), grad_numbers_ = {1, 2, 3, 4, 5, 6};
    std::vector<float> target_ = std::vector<float>(8, 100.0f);
    OpSpec spec_{.attrs = EmbeddingAttrs{}, .weights = {{4, 2}}};
    OpSize size_{.rows = 1, .sequence_length = 3};
    Batch batch_{.rows = 1, .sequence_length = 3, .tokens = tokens_.data(), .positions = positions_.data()};
    Weight weight_{.base = Tensor(DType::f32, {4, 2}, table_.data())};
    Tensor out_{DType::f32, {3, 2}, out_numbers_.data()};
    Tensor grad_out_{DType::f32, {3, 2}, grad_numbers_.data()};
    GradientSink sink_{Tensor(DType::f32, {4, 2}, target_.data())};
    std::vector<std::byte> scratch_;
    CpuStream stream_{1};
    OpCall call_;
};

TEST_F(Embedding, GathersRows) {
    kernels().forward(call_, stream_);
    EXPECT_EQ(out_numbers_, (std::vector<float>{20, 21, 0, 1, 20, 21}));
}

TEST_F(Embedding, PositionsAreOffset) {
    spec_.attrs = EmbeddingAttrs{EmbeddingAttrs::Index::position, 1};
    kernels().forward(call_, stream_);
    EXPECT_EQ(out_numbers_, (std::vector<float>{10, 11, 20, 21, 30, 31}));
}

TEST_F(Embedding, GradientsOfARowAddUp) {
    kernels().vjp(call_, stream_);
    EXPECT_EQ(target_, (std::vector<float>{103, 104, 100, 100, 106, 108, 100, 100}));
}

TEST_F(Embedding, TheFirstGradientFindsGarbage) {
    std::fill(target_.begin(), target_.end(), std::numeric_limits<float>::quiet_NaN());
    sink_.first = true;
    kernels().vjp(call_, stream_);
    EXPECT_EQ(target_, (std::vector<float>{3, 4, 0, 0, 6, 8, 0, 0}));
}

TEST_F(Embedding, AFrozenTableGetsNoGradient) {
    sink_ = {};
    kernels().vjp(call_, stream_);
    EXPECT_EQ(target_, std::vector<float>(8, 100.0f));
}

TEST_F(Embedding, AFrozenTableMovesNothing) {
    call_.tangent_out = {&out_, 1};
    std::fill(out_numbers_.begin(), out_numbers_.end(), 5.0f);
    kernels().jvp(call_, stream_);
    EXPECT_EQ(out_numbers_, std::vector<float>(6, 0.0f));
}

// A bf16 model that computes in f32 without masters, and the other way round.
TEST_F(Embedding, TablesOfTheOtherTypeAreConverted) {
    std::vector<uint16_t> narrow;
    for (const float x : table_) narrow.push_back(to_bf16(x).bits);
    weight_.base = Tensor(DType::bf16, {4, 2}, narrow.data());
    kernels().forward(call_, stream_);
    EXPECT_EQ(out_numbers_, (std::vector<float>{20, 21, 0, 1, 20, 21}));

    std::vector<uint16_t> out(6);
    weight_.base = Tensor(DType::f32, {4, 2}, table_.data());
    out_ = Tensor(DType::bf16, {3, 2}, out.data());
    size_.compute = DType::bf16;
    kernels().forward(call_, stream_);
    EXPECT_EQ(out[0], to_bf16(20.0f).bits);
    EXPECT_EQ(out[5], to_bf16(21.0f).bits);
}

TEST_F(Embedding, IdsOutsideTheTableAreOurBug) {
    tokens_[1] = 4;
    EXPECT_DEATH(kernels().forward(call_, stream_), "token 1 needs row 4 of 4");
    tokens_[1] = -1;
    EXPECT_DEATH(kernels().forward(call_, stream_), "token 1 needs row -1 of 4");
}

}  // namespace
}  // namespace windlass
