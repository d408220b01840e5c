// A number that is NaN reaches what sees its token, and nothing else: no earlier token, and no other document. A tile
// of a kernel holds rows that are not seen, and 0 times NaN is NaN. On compute capability 9.0, on 8.0, whose kernels
// all other cards have, and on the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "op/ops.h"
#include "tests/agree/trial.h"
#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"

namespace windlass::agree {
namespace {

// In hundredths of a row: where its documents begin, and the token with the NaN.
constexpr int64_t kDocuments[] = {0, 21, 76, 100};
constexpr int64_t kNanPlace = 57;
constexpr int kCpu = 0;  // in place of a compute capability

struct NanCase {
    AttentionAttrs attrs;
    DType compute;
    int capability;
    int64_t hundreds = 1;  // of tokens
};
std::string name_of(const NanCase& nan) {
    return fmt::format("{}_{}_{}_window_{}_softcap_{}_tokens_{}00",
                       nan.capability == kCpu ? "cpu" : fmt::format("sm_{}", nan.capability), dtype_name(nan.compute),
                       nan.attrs.head_size, nan.attrs.window, nan.attrs.softcap, nan.hundreds);
}
void PrintTo(const NanCase& nan, std::ostream* out) {
    *out << name_of(nan);
}

// Queries, keys and values; gradients of outputs; tangents of the former.
enum Operand : size_t { kQ, kK, kV, kGrad, kTangentQ, kTangentK, kTangentV, kOperands };

struct Results {
    Matrix out, tangent;
    std::array<Matrix, 3> grads;
};

class AttentionNan : public testing::TestWithParam<NanCase> {
  protected:
    AttentionNan() {
        if (capability_ != kCpu) simt::emulate({.capability = capability_});
        spec_.attrs = attrs_;
        const int64_t queries = attrs_.heads * attrs_.head_size, keys = attrs_.key_heads * attrs_.head_size;
        spec_.in = {{queries}, {keys}, {keys}};
        kAttention.infer(spec_);
        Random random(3, RandomStream::test);
        for (size_t i = 0; i < kOperands; ++i) {
            matrices_.emplace_back(length_, i == kGrad ? queries : spec_.in[i % kGrad % 3].cols);
            for (double& number : matrices_.back().numbers) number = random.normal();
        }
        for (int64_t t = 0; t < length_; ++t) doc_start_.push_back(static_cast<int32_t>(document_of(t)));
    }

    ~AttentionNan() override { simt::emulate({}); }
    void SetUp() override {
        if (is_second_run() && capability_ != kCpu && (attrs_.head_size > 64 || length_ > 100))
            GTEST_SKIP() << "smaller ones take the same code";
    }

    int64_t document_of(int64_t token) const {
        const int64_t hundreds = GetParam().hundreds;
        return hundreds * *(std::upper_bound(std::begin(kDocuments), std::end(kDocuments), token / hundreds) - 1);
    }
    bool sees(int64_t query, int64_t key) const {
        return key <= query && document_of(key) == document_of(query) &&
               (attrs_.window == 0 || key > query - attrs_.window);
    }
    // Whether what a token's keys and values are told comes from a query that sees the NaN, or has it.
    bool is_told(int64_t key) const {
        for (int64_t query = 0; query < length_; ++query)
            if (sees(query, key) && sees(query, nan_token_)) return true;
        return false;
    }

    // With that operand NaN at one token; kOperands: with none.
    Results results(size_t faulty) const {
        std::vector<Value> values;
        for (size_t i = 0; i < kOperands; ++i) {
            Matrix matrix = matrices_[i];
            for (int64_t col = 0; col < matrix.cols && i == faulty; ++col) matrix.at(nan_token_, col) = NAN;
            values.emplace_back(compute_, Shape{length_, matrix.cols}).set(matrix);
        }
        const std::array<Tensor, 3> in = {values[kQ].tensor(), values[kK].tensor(), values[kV].tensor()},
                                    tangents = {values[kTangentQ].tensor(), values[kTangentK].tensor(),
                                                values[kTangentV].tensor()};
        const Value out = fresh(spec_.out[0].cols), tangent = fresh(spec_.out[0].cols);
        const Value log_sum(DType::f32, {length_, spec_.saved[0].cols});
        const std::array<Value, 3> grads = {fresh(spec_.in[0].cols), fresh(spec_.in[1].cols), fresh(spec_.in[2].cols)};
        const Tensor outs[] = {out.tensor()}, saved[] = {log_sum.tensor()}, grad_out[] = {values[kGrad].tensor()},
                     tangent_out[] = {tangent.tensor()},
                     grad_in[] = {grads[0].tensor(), grads[1].tensor(), grads[2].tensor()};
        const uint8_t add[3] = {};
        run(DiffMode::forward, {.in = in, .out = outs, .saved = saved});
        run(DiffMode::vjp,
            {.in = in, .out = outs, .saved = saved, .grad_out = grad_out, .grad_in = grad_in, .add_to_grad_in = add});
        run(DiffMode::jvp, {.in = in, .tangent_in = tangents, .tangent_out = tangent_out});
        return {out.matrix(), tangent.matrix(), {grads[0].matrix(), grads[1].matrix(), grads[2].matrix()}};
    }

    const AttentionAttrs attrs_ = GetParam().attrs;
    const int capability_ = GetParam().capability;
    const int64_t length_ = 100 * GetParam().hundreds, nan_token_ = kNanPlace * GetParam().hundreds;

  private:
    Value fresh(int64_t cols) const { return Value(compute_, {length_, cols}); }
    void run(DiffMode mode, OpCall call) const {
        const DeviceKind device = capability_ == kCpu ? DeviceKind::cpu : DeviceKind::cuda;
        const OpSize size{.rows = 1, .sequence_length = length_, .device = device, .compute = compute_};
        const Batch batch{.rows = 1, .sequence_length = length_, .doc_start = doc_start_.data()};
        Guarded scratch(kAttention.scratch_bytes(spec_, size, mode));
        call.spec = &spec_;
        call.size = &size;
        call.batch = &batch;
        call.scratch = {scratch.data(), scratch.size()};
        const std::unique_ptr<Device> owner = make_device({device});
        const std::unique_ptr<Stream> stream = owner->make_stream(1);
        stream->launch([&](const Launch& launch) { kAttention.on(device).of(mode)(call, launch.stream()); });
        stream->synchronize();
    }

    OpSpec spec_;
    const DType compute_ = GetParam().compute;
    std::vector<Matrix> matrices_;
    VisibleVector<int32_t> doc_start_;
};

bool same_row(const Matrix& a, const Matrix& b, int64_t row) {
    for (int64_t col = 0; col < a.cols; ++col)
        if (a.at(row, col) != b.at(row, col)) return false;
    return true;
}
bool is_nan_row(const Matrix& a, int64_t row) {
    for (int64_t col = 0; col < a.cols; ++col)
        if (!std::isnan(a.at(row, col))) return false;
    return true;
}

TEST_P(AttentionNan, ReachesWhatSeesItsTokenAlone) {
    const Results clean = results(kOperands);
    for (size_t faulty = 0; faulty < kOperands; ++faulty) {
        SCOPED_TRACE(fmt::format("operand {}", faulty));
        const Results got = results(faulty);
        for (int64_t t = 0; t < length_; ++t) {
            SCOPED_TRACE(fmt::format("token {}", t));
            if (!sees(t, nan_token_)) {
                EXPECT_TRUE(same_row(got.out, clean.out, t));
                EXPECT_TRUE(same_row(got.tangent, clean.tangent, t));
                EXPECT_TRUE(same_row(got.grads[0], clean.grads[0], t));
            }
            for (const size_t i : {1, 2})
                EXPECT_TRUE(is_told(t) || same_row(got.grads[i], clean.grads[i], t)) << "gradient " << i;
        }
    }
}

TEST_P(AttentionNan, IsNotLost) {
    for (size_t faulty = 0; faulty < kOperands; ++faulty) {
        SCOPED_TRACE(fmt::format("operand {}", faulty));
        const Results got = results(faulty);
        for (int64_t t = 0; t < length_; ++t) {
            SCOPED_TRACE(fmt::format("token {}", t));
            const bool reads =
                faulty == kQ || faulty == kGrad || faulty == kTangentQ ? t == nan_token_ : sees(t, nan_token_);
            if (reads && faulty < kGrad) {
                EXPECT_TRUE(is_nan_row(got.out, t));
            }
            if (reads && faulty != kGrad) {
                EXPECT_TRUE(is_nan_row(got.tangent, t));
            }
            if (reads && faulty <= kGrad) {
                EXPECT_TRUE(is_nan_row(got.grads[0], t));
            }
            if (faulty == kGrad && sees(nan_token_, t)) {
                EXPECT_TRUE(is_nan_row(got.grads[1], t) && is_nan_row(got.grads[2], t));
            }
        }
    }
}

std::vector<NanCase> nan_cases() {
    std::vector<NanCase> cases;
    const auto add = [&](int capability, int64_t head_size, int64_t window, double softcap, DType compute,
                         int64_t hundreds = 1) {
        cases.push_back({{.heads = 1,
                          .key_heads = 1,
                          .head_size = head_size,
                          .scale = 1 / std::sqrt(static_cast<double>(head_size)),
                          .window = window,
                          .softcap = softcap},
                         compute,
                         capability,
                         hundreds});
    };
    for (const int capability : {80, 90, kCpu}) {
        for (const int64_t head_size : {20, 48, 64, 80, 96, 128, 256}) add(capability, head_size, 0, 0, DType::bf16);
        add(capability, 64, 30, 0, DType::bf16);
        add(capability, 128, 30, 5, DType::bf16);
        add(capability, 256, 0, 5, DType::bf16);
        add(capability, 20, 30, 5, DType::f32);
    }
    // Several tiles.
    add(80, 64, 0, 0, DType::bf16, 2);
    for (const int64_t window : {0, 90}) add(90, 64, window, 0, DType::bf16, 3);
    for (const DType compute : {DType::bf16, DType::f32}) {
        add(kCpu, 64, 0, 0, compute, 7);
        add(kCpu, 24, 200, 5, compute, 7);
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionNan, testing::ValuesIn(nan_cases()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace windlass::agree
