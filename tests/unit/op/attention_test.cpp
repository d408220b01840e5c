// What the agreement test does not reach: rows longer than a tile of keys, and decoding with a cache.
#include <gmock/gmock.h>

#include <cmath>

#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "op/ops.h"

namespace windlass {
namespace {

class Values {
  public:
    Values(DType dtype, int64_t rows, int64_t cols) : dtype_(dtype), rows_(rows), cols_(cols), data_(rows * cols * 4) {}
    static Values random(DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
        Values values(dtype, rows, cols);
        Random random(seed, RandomStream::test);
        for (int64_t i = 0; i < rows * cols; ++i) values.set(i, random.normal());
        return values;
    }
    Tensor tensor() { return {dtype_, {rows_, cols_}, data_.data()}; }
    double at(int64_t row, int64_t col) const {
        const int64_t i = row * cols_ + col;
        return dtype_ == DType::f32 ? reinterpret_cast<const float*>(data_.data())[i]
                                    : to_float(reinterpret_cast<const bf16*>(data_.data())[i]);
    }
    double dot(const Values& other) const {
        double sum = 0;
        for (int64_t i = 0; i < rows_; ++i) {
            for (int64_t j = 0; j < cols_; ++j) sum += at(i, j) * other.at(i, j);
        }
        return sum;
    }
    int64_t rows() const { return rows_; }
    int64_t cols() const { return cols_; }

  private:
    void set(int64_t i, float x) {
        if (dtype_ == DType::f32) {
            reinterpret_cast<float*>(data_.data())[i] = x;
        } else {
            reinterpret_cast<bf16*>(data_.data())[i] = to_bf16(x);
        }
    }

    DType dtype_;
    int64_t rows_, cols_;
    std::vector<std::byte> data_;
};

// One row of queries, keys and values, and attention over it.
struct Sequence {
    DType dtype;
    OpSpec spec;
    std::vector<int32_t> doc_start;
    Values q, k, v, out, log_sum;

    Sequence(DType dtype, const AttentionAttrs& attrs, int64_t length, std::vector<int32_t> starts)
        : dtype(dtype),
          doc_start(std::move(starts)),
          q(Values::random(dtype, length, attrs.heads * attrs.head_size, 1)),
          k(Values::random(dtype, length, attrs.key_heads * attrs.head_size, 2)),
          v(Values::random(dtype, length, attrs.key_heads * attrs.head_size, 3)),
          out(dtype, length, q.cols()),
          log_sum(DType::f32, length, attrs.heads) {
        spec.attrs = attrs;
        spec.in = {{q.cols()}, {k.cols()}, {v.cols()}};
        kAttention.infer(spec);
        doc_start.resize(static_cast<size_t>(length), doc_start.empty() ? 0 : doc_start.back());
    }
    const AttentionAttrs& attrs() const { return spec.get<AttentionAttrs>(); }

    // Runs a direction over tokens [begin, begin + count) with `cached` tokens before them.
    void run(DiffMode mode, OpCall call, int64_t cached, int64_t count) {
        const OpSize size{.rows = 1, .sequence_length = count, .compute = dtype, .threads = 2, .cached = cached};
        const Batch batch{
            .rows = 1, .sequence_length = count, .doc_start = doc_start.data() + cached, .cached = cached};
        std::vector<std::byte> scratch(static_cast<size_t>(kAttention.scratch_bytes(spec, size, mode)) + 64);
        const size_t shift = 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
        call.spec = &spec;
        call.size = &size;
        call.batch = &batch;
        call.scratch = std::span(scratch).subspan(shift, scratch.size() - 64);
        CpuStream stream(2);
        kAttention.on(DeviceKind::cpu).of(mode)(call, stream);
    }
    void forward() {
        const Tensor in[] = {q.tensor(), k.tensor(), v.tensor()}, outs[] = {out.tensor()}, saved[] = {log_sum.tensor()};
        run(DiffMode::forward, {.in = in, .out = outs, .saved = saved}, 0, q.rows());
    }

    double want(int64_t token, int64_t head, int64_t d) const {
        const auto& a = attrs();
        const int64_t at = head / (a.heads / a.key_heads) * a.head_size;
        int64_t first = doc_start[static_cast<size_t>(token)];
        if (a.window > 0) first = std::max(first, token - a.window + 1);
        double sum = 0, mixed = 0;
        for (int64_t key = first; key <= token; ++key) {
            double score = 0;
            for (int64_t i = 0; i < a.head_size; ++i) score += q.at(token, head * a.head_size + i) * k.at(key, at + i);
            sum += std::exp(score * a.scale);
            mixed += std::exp(score * a.scale) * v.at(key, at + d);
        }
        return mixed / sum;
    }
};

struct LongCase {
    const char* name;
    DType dtype;
    AttentionAttrs attrs;
    int64_t length;
    std::vector<int32_t> doc_start;
};

std::vector<LongCase> long_cases() {
    std::vector<int32_t> documents(100, 0);
    documents.resize(800, 100);
    std::vector<LongCase> cases;
    for (const DType dtype : {DType::f32, DType::bf16}) {
        cases.push_back({"two key tiles", dtype, {2, 1, 8, 0.35, 0}, 600, {}});
        cases.push_back({"window over three key tiles", dtype, {1, 1, 5, 0.4, 700}, 1300, {}});
        cases.push_back({"documents", dtype, {2, 2, 16, 0.25, 0}, 800, documents});
    }
    return cases;
}

class AttentionOn : public testing::TestWithParam<Isa> {
  protected:
    void SetUp() override { set_cpu_isa(GetParam()); }
    void TearDown() override { set_cpu_isa(before_); }

  private:
    const Isa before_ = cpu_isa();
};

// Weights and results round to the type; values are of size one.
double tolerance(DType dtype) {
    return dtype == DType::f32 ? 4e-6 : 0x1p-7;
}

TEST_P(AttentionOn, LongRowsAreTheFormula) {
    for (const LongCase& c : long_cases()) {
        Sequence sequence(c.dtype, c.attrs, c.length, c.doc_start);
        sequence.forward();
        for (int64_t token = 0; token < c.length; token += 7) {
            for (int64_t i = 0; i < c.attrs.heads * c.attrs.head_size; ++i) {
                const double want = sequence.want(token, i / c.attrs.head_size, i % c.attrs.head_size);
                ASSERT_NEAR(sequence.out.at(token, i), want, tolerance(c.dtype)) << c.name << " token " << token;
            }
        }
    }
}

// <dO, J u> = <J^T dO, u>, and J u is the difference of nearby results.
TEST_P(AttentionOn, LongRowsHaveOneDerivative) {
    for (const LongCase& c : long_cases()) {
        Sequence sequence(c.dtype, c.attrs, c.length, c.doc_start);
        sequence.forward();
        const int64_t wide = sequence.q.cols(), narrow = sequence.k.cols();
        Values dq(c.dtype, c.length, wide), dk(c.dtype, c.length, narrow), dv(c.dtype, c.length, narrow);
        Values grad = Values::random(c.dtype, c.length, wide, 4), tangent(c.dtype, c.length, wide);
        Values uq = Values::random(c.dtype, c.length, wide, 5), uk = Values::random(c.dtype, c.length, narrow, 6),
               uv = Values::random(c.dtype, c.length, narrow, 7);
        const Tensor in[] = {sequence.q.tensor(), sequence.k.tensor(), sequence.v.tensor()},
                     out[] = {sequence.out.tensor()};
        const Tensor saved[] = {sequence.log_sum.tensor()}, grad_out[] = {grad.tensor()}, u_out[] = {tangent.tensor()};
        const Tensor grad_in[] = {dq.tensor(), dk.tensor(), dv.tensor()}, u[] = {uq.tensor(), uk.tensor(), uv.tensor()};
        sequence.run(DiffMode::vjp, {.in = in, .out = out, .saved = saved, .grad_out = grad_out, .grad_in = grad_in}, 0,
                     c.length);
        sequence.run(DiffMode::jvp, {.in = in, .tangent_in = u, .tangent_out = u_out}, 0, c.length);
        const double pushed = grad.dot(tangent), pulled = dq.dot(uq) + dk.dot(uk) + dv.dot(uv);
        // Roundings of single numbers are independent: they add up like the square root of their count.
        const double size = std::sqrt(grad.dot(grad)) + std::sqrt(dq.dot(dq) + dk.dot(dk) + dv.dot(dv));
        EXPECT_NEAR(pushed, pulled, size * tolerance(c.dtype)) << c.name;
    }
}

TEST_P(AttentionOn, DecodingWithACacheIsTheSame) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        constexpr int64_t kLength = 90, kPrompt = 37, kCapacity = 96;
        Sequence sequence(dtype, {4, 2, 20, 0.22, 50}, kLength, {});
        Values keys(dtype, kCapacity, sequence.k.cols()), values(dtype, kCapacity, sequence.v.cols());
        for (int64_t begin = 0; begin < kLength;) {
            const int64_t count = begin == 0 ? kPrompt : begin < 60 ? 1 : std::min<int64_t>(9, kLength - begin);
            const auto part = [&](Values& all) { return all.tensor().slice_rows(begin, count); };
            const Tensor in[] = {part(sequence.q), part(sequence.k), part(sequence.v)}, out[] = {part(sequence.out)};
            sequence.run(DiffMode::forward,
                         {.in = in, .out = out, .cache_keys = keys.tensor(), .cache_values = values.tensor()}, begin,
                         count);
            begin += count;
        }
        for (int64_t token = 0; token < kLength; ++token) {
            for (int64_t i = 0; i < sequence.q.cols(); ++i) {
                ASSERT_NEAR(sequence.out.at(token, i), sequence.want(token, i / 20, i % 20), tolerance(dtype)) << token;
            }
        }
    }
}

std::vector<Isa> attention_isas() {
    std::vector<Isa> all;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa <= detected_isa()) all.push_back(isa);
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Each, AttentionOn, testing::ValuesIn(attention_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace windlass
