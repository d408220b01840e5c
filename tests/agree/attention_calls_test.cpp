// What calls of attention may bring along, a cache, and what they may leave out: on the device of this program.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "op/ops.h"
#include "tests/agree/trial.h"

namespace windlass::agree {
namespace {

constexpr int64_t kCalledRows = 2, kCalledLength = 76, kCalledPrompt = 37, kCalledCapacity = 80;
// Of both kinds of kernels that a device may have.
constexpr AttentionAttrs kCalledSizes[] = {{4, 2, 20, 0.22, 50}, {2, 1, 64, 0.125, 0}};

// Two rows of queries, keys and values, apart.
class Called {
  public:
    Called(const AttentionAttrs& attrs, DType compute) : compute_(compute) {
        const int64_t queries = attrs.heads * attrs.head_size, keys = attrs.key_heads * attrs.head_size;
        spec_.attrs = attrs;
        spec_.in = {{queries}, {keys}, {keys}};
        kAttention.infer(spec_);
        for (const ValueSpec& spec : spec_.in) in_.push_back(random_value(spec.cols));
    }

    Value fresh_out() const { return Value(compute_, {kCalledRows * kCalledLength, spec_.out[0].cols}); }
    // Of all tokens.
    Value random_value(int64_t cols) const {
        static uint64_t seed = 0;
        Random random(++seed, RandomStream::test);
        Matrix matrix(kCalledRows * kCalledLength, cols);
        for (double& number : matrix.numbers) number = random.normal();
        Value value(compute_, {matrix.rows, cols});
        value.set(matrix);
        return value;
    }
    const std::vector<Value>& in() const { return in_; }
    const OpSpec& spec() const { return spec_; }
    DType compute() const { return compute_; }

    // Tokens [begin, begin + count) of each row.
    Value part(const Value& value, int64_t begin, int64_t count) const {
        const Tensor& all = value.tensor();
        Value some(compute_, {kCalledRows * count, all.cols()});
        for (int64_t row = 0; row < kCalledRows; ++row) {
            const Tensor from = all.slice_rows(row * kCalledLength + begin, count);
            std::memcpy(some.tensor().slice_rows(row * count, count).data, from.data,
                        static_cast<size_t>(from.bytes()));
        }
        return some;
    }

    void run(DiffMode mode, OpCall call, int64_t cached = 0, int64_t count = kCalledLength) const {
        const DeviceKind device = usable_cuda() == nullptr ? DeviceKind::cpu : DeviceKind::cuda;
        const OpSize size{
            .rows = kCalledRows, .sequence_length = count, .device = device, .compute = compute_, .cached = cached};
        const VisibleVector<int32_t> doc_start(static_cast<size_t>(kCalledRows * count), 0);
        const Batch batch{
            .rows = kCalledRows, .sequence_length = count, .doc_start = doc_start.data(), .cached = cached};
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

  private:
    OpSpec spec_;
    DType compute_;
    std::vector<Value> in_;
};

template <typename Body>
void for_every_call(Body body) {
    for (const AttentionAttrs& attrs : kCalledSizes) {
        for (const DType compute : {DType::f32, DType::bf16}) {
            SCOPED_TRACE(fmt::format("size {}, {}", attrs.head_size, dtype_name(compute)));
            body(Called(attrs, compute));
        }
    }
}

std::array<Tensor, 3> tensors_of(const std::vector<Value>& values) {
    return {values[0].tensor(), values[1].tensor(), values[2].tensor()};
}

Matrix whole(const Called& called) {
    const Value out = called.fresh_out();
    const auto in = tensors_of(called.in());
    const Tensor outs[] = {out.tensor()};
    called.run(DiffMode::forward, {.in = in, .out = outs});
    return out.matrix();
}

// A prompt, then token by token, then a few together.
Matrix piecewise(const Called& called) {
    const int64_t key_cols = called.spec().in[1].cols;
    Value keys(called.compute(), {kCalledRows * kCalledCapacity, key_cols}),
        values(called.compute(), {kCalledRows * kCalledCapacity, key_cols});
    Matrix all(kCalledRows * kCalledLength, called.spec().out[0].cols);
    for (int64_t begin = 0; begin < kCalledLength;) {
        const int64_t count = begin == 0 ? kCalledPrompt : begin < 60 ? 1 : std::min(kCalledLength - begin, int64_t{9});
        std::vector<Value> parts;
        for (const Value& value : called.in()) parts.push_back(called.part(value, begin, count));
        const Value out = called.part(called.fresh_out(), begin, count);
        const auto in = tensors_of(parts);
        const Tensor outs[] = {out.tensor()};
        called.run(DiffMode::forward,
                   {.in = in, .out = outs, .cache_keys = keys.tensor(), .cache_values = values.tensor()}, begin, count);
        const Matrix got = out.matrix();
        for (int64_t i = 0; i < got.rows; ++i)
            for (int64_t col = 0; col < got.cols; ++col)
                all.at(i / count * kCalledLength + begin + i % count, col) = got.at(i, col);
        begin += count;
    }
    EXPECT_TRUE(keys.intact() && values.intact());
    return all;
}

// Tiles lie otherwise: weights are summed, and rounded, under other maxima.
TEST(AttentionCalls, WithACacheAreTheSame) {
    for_every_call([](const Called& called) {
        const Matrix want = whole(called), got = piecewise(called);
        const double tolerance = called.compute() == DType::bf16 ? 0x1p-6 : 0x1p-19;
        for (size_t i = 0; i < want.numbers.size(); ++i)
            ASSERT_NEAR(got.numbers[i], want.numbers[i], tolerance) << "number " << i;
    });
}

TEST(AttentionCalls, TakeAMissingTangentForZeros) {
    for_every_call([](const Called& called) {
        const auto in = tensors_of(called.in());
        for (size_t missing = 0; missing < 3; ++missing) {
            std::vector<Value> given;
            for (const ValueSpec& spec : called.spec().in) given.push_back(called.random_value(spec.cols));
            given[missing].set(Matrix(kCalledRows * kCalledLength, called.spec().in[missing].cols));
            auto tangents = tensors_of(given);
            const Value zeros = called.fresh_out(), none = called.fresh_out();
            for (const Value* out : {&zeros, &none}) {
                const Tensor outs[] = {out->tensor()};
                called.run(DiffMode::jvp, {.in = in, .tangent_in = tangents, .tangent_out = outs});
                tangents[missing].data = nullptr;
            }
            EXPECT_EQ(zeros.matrix().numbers, none.matrix().numbers) << missing;
        }
    });
}

TEST(AttentionCalls, WriteTheGradientsThatAreWanted) {
    for_every_call([](const Called& called) {
        const auto in = tensors_of(called.in());
        const Value out = called.fresh_out(), grad = called.random_value(called.spec().out[0].cols);
        const Value log_sum(DType::f32, {kCalledRows * kCalledLength, called.spec().saved[0].cols});
        const Tensor outs[] = {out.tensor()}, saved[] = {log_sum.tensor()}, grad_out[] = {grad.tensor()};
        called.run(DiffMode::forward, {.in = in, .out = outs, .saved = saved});
        const auto gradients = [&](std::array<bool, 3> wanted) {
            std::vector<Value> all;
            for (const ValueSpec& spec : called.spec().in)
                all.emplace_back(called.compute(), Shape{kCalledRows * kCalledLength, spec.cols});
            auto targets = tensors_of(all);
            for (size_t i = 0; i < 3; ++i)
                if (!wanted[i]) targets[i].data = nullptr;
            const uint8_t add[3] = {};
            called.run(DiffMode::vjp, {.in = in,
                                       .out = outs,
                                       .saved = saved,
                                       .grad_out = grad_out,
                                       .grad_in = targets,
                                       .add_to_grad_in = add});
            return all;
        };
        const std::vector<Value> all = gradients({true, true, true});
        for (size_t one = 0; one < 3; ++one)
            EXPECT_TRUE(gradients({one == 0, one == 1, one == 2})[one] == all[one]) << one;
    });
}

}  // namespace
}  // namespace windlass::agree
