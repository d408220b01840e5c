#include "op/loops_cpu.h"

#include <array>
#include <cstring>

#include "base/math.h"

namespace windlass {
namespace {

constexpr IsaKernel<const ConvertLoops> kConvertLoops{&baseline::kConvertLoops, &avx2::kConvertLoops,
                                                      &avx512::kConvertLoops};
constexpr int64_t kLoopBlock = 512;         // numbers a pointwise loop sees at a time: six buffers are 12 KiB
constexpr int64_t kChunkNumbers = 1 << 16;  // about 20 us of streaming
constexpr int64_t kGradientRows = 64;       // rows summed into one partial gradient, at least
constexpr int64_t kGradientChunks = 256;    // partial gradients, at most: they bound scratch
constexpr int64_t kAlignment = 64;

bool is_value(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16;
}

// Asks for the numbers that follow [offset, offset + n), most likely the next block or row, while these are worked
// on: prefetchers of the hardware stop where a page ends, and a row is about a page. An address beyond the value is
// no access.
template <int kWrite>
void prefetch_next(const Tensor& value, int64_t offset, int64_t n) {
    const int64_t size = dtype_bytes(value.dtype);
    const auto* const next = value.as<const char>() + (offset + n) * size;
    for (int64_t byte = 0; byte < n * size; byte += kAlignment) __builtin_prefetch(next + byte, kWrite);
}

// The shape of the first tensor that is there.
Shape common_shape(std::span<const Tensor> in, std::span<const Output> out) {
    for (const Tensor& tensor : in) {
        if (!tensor.empty()) return tensor.shape;
    }
    for (const Output& output : out) {
        if (!output.value.empty()) return output.value.shape;
    }
    return {0, 0};
}

struct Block {
    alignas(kAlignment) std::array<float, kLoopBlock> numbers;
};

}  // namespace

const ConvertLoops& convert_loops() {
    return *kConvertLoops.pick();
}

const float* read_numbers(const Tensor& value, int64_t offset, int64_t n, float* buffer) {
    if (value.empty()) {
        std::memset(buffer, 0, static_cast<size_t>(n) * sizeof(float));
        return buffer;
    }
    prefetch_next<0>(value, offset, n);
    if (value.dtype == DType::f32) return value.as<float>() + offset;
    WINDLASS_CHECK(value.dtype == DType::bf16, "a value of type {}", dtype_name(value.dtype));
    convert_loops().widen(value.as<uint16_t>() + offset, buffer, n);
    return buffer;
}

float* Output::begin(int64_t offset, float* buffer) const {
    const bool in_place = !value.empty() && value.dtype == DType::f32 && !add;
    return in_place ? value.as<float>() + offset : buffer;
}

void Output::end(int64_t offset, int64_t n, const float* numbers) const {
    if (value.empty()) return;
    WINDLASS_CHECK(is_value(value.dtype), "a value of type {}", dtype_name(value.dtype));
    prefetch_next<1>(value, offset, n);
    const ConvertLoops& loops = convert_loops();
    if (value.dtype == DType::bf16) {
        (add ? loops.add_narrow : loops.narrow)(numbers, value.as<uint16_t>() + offset, n);
    } else if (add) {
        loops.add(numbers, value.as<float>() + offset, n);
    }
}

Output grad_output(const OpCall& call, size_t i) {
    return {call.grad_in[i], i < call.add_to_grad_in.size() && call.add_to_grad_in[i] != 0};
}

void for_row_chunks(int64_t rows, int64_t chunk, Team& team, const std::function<void(int64_t, int64_t, int)>& body) {
    team.parallel_for(div_up(rows, chunk), [&](int64_t index, int worker) {
        body(index * chunk, std::min(rows, (index + 1) * chunk), worker);
    });
}

int64_t rows_per_chunk(int64_t cols) {
    return std::max<int64_t>(1, kChunkNumbers / std::max<int64_t>(1, cols));
}

void run_pointwise(PointwiseLoop* loop, std::span<const Tensor> in, std::span<const Output> out, Team& team) {
    WINDLASS_CHECK(in.size() + out.size() <= kPointwiseMax, "{} operands", in.size() + out.size());
    const Shape shape = common_shape(in, out);
    const int64_t cols = shape[1];
    const auto run_block = [&](int64_t row, int64_t col, int64_t n) {
        std::array<Block, kPointwiseMax> blocks;
        std::array<const float*, kPointwiseMax> from{};
        std::array<float*, kPointwiseMax> to{};
        for (size_t i = 0; i < in.size(); ++i) {
            from[i] = read_numbers(in[i], row * in[i].row_stride + col, n, blocks[i].numbers.data());
        }
        for (size_t i = 0; i < out.size(); ++i) {
            to[i] = out[i].begin(row * out[i].value.row_stride + col, blocks[in.size() + i].numbers.data());
        }
        loop(from.data(), to.data(), n);
        for (size_t i = 0; i < out.size(); ++i) out[i].end(row * out[i].value.row_stride + col, n, to[i]);
    };
    for_row_chunks(shape[0], rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t col = 0; col < cols; col += kLoopBlock) run_block(row, col, std::min(kLoopBlock, cols - col));
        }
    });
}

void pointwise_forward(PointwiseLoop* loop, const OpCall& call, Stream& stream) {
    const Output out{call.out[0]};
    run_pointwise(loop, call.in, {&out, 1}, cpu_team(stream));
}

void pointwise_backward(PointwiseLoop* loop, std::span<const Tensor> reads, const OpCall& call, Stream& stream) {
    std::vector<Tensor> in(reads.begin(), reads.end());
    in.push_back(call.grad_out[0]);
    std::vector<Output> out;
    for (size_t i = 0; i < call.grad_in.size(); ++i) out.push_back(grad_output(call, i));
    run_pointwise(loop, in, out, cpu_team(stream));
}

void pointwise_tangent(PointwiseLoop* loop, std::span<const Tensor> reads, const OpCall& call, Stream& stream) {
    const int64_t tokens = call.size->tokens();
    for (int64_t begin = 0; begin < tokens * call.size->k; begin += tokens) {
        std::vector<Tensor> in(reads.begin(), reads.end());
        for (const Tensor& tangent : call.tangent_in) {
            in.push_back(tangent.empty() ? tangent : tangent.slice_rows(begin, tokens));
        }
        const Output out{call.tangent_out[0].slice_rows(begin, tokens)};
        run_pointwise(loop, in, {&out, 1}, cpu_team(stream));
    }
}

float* Scratch::floats(int64_t count) {
    const auto bytes = static_cast<size_t>(float_bytes(count));
    WINDLASS_CHECK(bytes <= left_.size(), "{} bytes of scratch, {} are left", bytes, left_.size());
    auto* const taken = reinterpret_cast<float*>(left_.data());
    left_ = left_.subspan(bytes);
    return taken;
}

int64_t float_bytes(int64_t count) {
    return round_up<int64_t>(count * sizeof(float), kAlignment);
}

WorkerRows::WorkerRows(Scratch& scratch, const OpSize& size, int64_t cols)
    : stride_(float_bytes(cols) / static_cast<int64_t>(sizeof(float))) {
    data_ = scratch.floats(stride_ * size.threads);
}

int64_t WorkerRows::bytes(const OpSize& size, int64_t cols) {
    return float_bytes(cols) * size.threads;
}

void read_weight_row(const Weight& weight, int64_t row, DType compute, float* to) {
    const Tensor& base = weight.base;
    const int64_t cols = base.shape[base.shape.rank() - 1];
    const auto bytes = static_cast<size_t>(cols) * sizeof(float);
    if (base.dtype == DType::f32) {
        std::memcpy(to, base.as<float>() + row * base.row_stride, bytes);
        return;
    }
    WINDLASS_CHECK(base.dtype == DType::bf16, "a weight of type {}", dtype_name(base.dtype));
    const uint16_t* high = base.as<uint16_t>() + row * base.row_stride;
    if (compute == DType::f32 && !weight.low.empty()) {
        convert_loops().join(high, weight.low.as<int16_t>() + row * weight.low.row_stride, to, cols);
    } else {
        convert_loops().widen(high, to, cols);
    }
}

const float* read_vector(const Weight& weight, const OpSize& size, Scratch& scratch) {
    WINDLASS_CHECK(weight.base.shape.rank() == 1, "a vector of shape {}", weight.base.shape.to_string());
    float* const to = scratch.floats(weight.base.numel());
    read_weight_row(weight, 0, size.compute, to);
    return to;
}

VectorTangents::VectorTangents(const Weight& weight, const OpSize& size, Scratch& scratch)
    : cols_(weight.base.numel()) {
    const Tensor& direction = weight.direction;
    if (direction.empty()) return;
    data_ = scratch.floats(size.k * cols_);
    for (int64_t k = 0; k < size.k; ++k) {
        float* const to = data_ + k * cols_;
        const float* const from = read_row(direction, k, cols_, to);
        if (from != to) std::memcpy(to, from, static_cast<size_t>(cols_) * sizeof(float));
    }
}

VectorGradient::VectorGradient(const GradientSink& sink, int64_t rows, int64_t cols, Scratch& scratch)
    : sink_(sink), chunk_rows_(chunk_rows(rows)), chunks_(div_up(rows, chunk_rows_)), cols_(cols) {
    if (!sink.wanted()) return;
    WINDLASS_CHECK(sink.target.dtype == DType::f32 && sink.target.numel() == cols,
                   "the gradient of a vector of {} accumulates in f32", cols);
    partial_ = scratch.floats(chunks_ * cols);
}

int64_t VectorGradient::chunk_rows(int64_t rows) {
    return std::max(kGradientRows, div_up(rows, kGradientChunks));
}

int64_t VectorGradient::bytes(int64_t rows, int64_t cols) {
    return float_bytes(div_up(rows, chunk_rows(rows)) * cols);
}

float* VectorGradient::begin_chunk(int64_t begin_row) {
    if (!wanted()) return nullptr;
    float* const sums = partial_ + begin_row / chunk_rows_ * cols_;
    std::memset(sums, 0, static_cast<size_t>(cols_) * sizeof(float));
    return sums;
}

void VectorGradient::finish(Team& team) {
    if (!wanted()) return;
    float* const target = sink_.target.as<float>();
    for_row_chunks(cols_, kLoopBlock, team, [&](int64_t begin, int64_t end, int) {
        const auto bytes = static_cast<size_t>(end - begin) * sizeof(float);
        for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
            convert_loops().add(partial_ + chunk * cols_ + begin, partial_ + begin, end - begin);
        }
        if (sink_.first) {
            std::memcpy(target + begin, partial_ + begin, bytes);
        } else {
            convert_loops().add(partial_ + begin, target + begin, end - begin);
        }
    });
}

int64_t value_bytes(const ValueSpec& spec, const OpSize& size) {
    return size.tokens() * spec.cols * dtype_bytes(dtype_of(spec.type, size.compute));
}

int64_t value_bytes(std::span<const ValueSpec> specs, const OpSize& size) {
    int64_t bytes = 0;
    for (const ValueSpec& spec : specs) bytes += value_bytes(spec, size);
    return bytes;
}

Cost streaming_cost(const OpSpec& spec, const OpSize& size, DiffMode mode, FlopsPerNumber flops, BackwardReads reads) {
    const int64_t in = value_bytes(spec.in, size);
    const int64_t out = value_bytes(spec.out, size);
    const auto numbers = static_cast<double>(size.tokens() * spec.out[0].cols);
    const bool linear = !reads.in && !reads.out;
    switch (mode) {
        case DiffMode::forward:
            return {flops.forward * numbers, flops.forward * numbers, in + out};
        case DiffMode::vjp:
            return {flops.backward * numbers, flops.backward * numbers,
                    (reads.in ? in : 0) + (reads.out ? out : 0) + out + in};
        case DiffMode::jvp:
            return {flops.tangent * numbers * size.k, flops.tangent * numbers * size.k,
                    (linear ? 0 : in) + size.k * (in + out)};
    }
    return {};
}

}  // namespace windlass
