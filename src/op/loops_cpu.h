// loops_cpu.h: what the plain ops' CPU kernels share: rows in and out of f32, the cut into chunks, scratch, weights.
//
// Work is cut into chunks of rows by shape alone, so results do not depend on the team's size.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "op/loops.h"
#include "op/op.h"

namespace windlass {

const ConvertLoops& convert_loops();

// Numbers [offset, offset + n) of a value as f32: in place where they are f32, else widened into `buffer`. An empty
// value counts as zeros.
const float* read_numbers(const Tensor& value, int64_t offset, int64_t n, float* buffer);
inline const float* read_row(const Tensor& value, int64_t row, int64_t cols, float* buffer) {
    return read_numbers(value, row * value.row_stride, cols, buffer);
}

// A value that a kernel writes: rounded once, after adding to what is there where `add` says so. An empty value is
// not wanted and is computed for nothing.
struct Output {
    Tensor value;
    bool add = false;

    // Where to compute numbers that start at `offset`: in place if possible, else in `buffer`; then hand them over.
    float* begin(int64_t offset, float* buffer) const;
    void end(int64_t offset, int64_t n, const float* numbers) const;
    float* begin_row(int64_t row, float* buffer) const { return begin(row * value.row_stride, buffer); }
    void end_row(int64_t row, const float* numbers) const { end(row * value.row_stride, value.cols(), numbers); }
};

// The gradient of input i as backward is to leave it.
Output grad_output(const OpCall& call, size_t i);

// Runs `loop` over every number of the inputs and outputs (all [T, C]), at most kPointwiseMax in all.
inline constexpr int kPointwiseMax = 6;
void run_pointwise(PointwiseLoop* loop, std::span<const Tensor> in, std::span<const Output> out, Team& team);

// The kernels of an op all of whose values have one shape, from its loops: backward reads `reads` and grad_out,
// tangent reads `in` too unless the op is linear.
void pointwise_forward(PointwiseLoop* loop, const OpCall& call, Stream& stream);
void pointwise_backward(PointwiseLoop* loop, std::span<const Tensor> reads, const OpCall& call, Stream& stream);
void pointwise_tangent(PointwiseLoop* loop, std::span<const Tensor> reads, const OpCall& call, Stream& stream);

// Rows [begin, end) for each chunk of `chunk` rows, shared out among the team.
void for_row_chunks(int64_t rows, int64_t chunk, Team& team,
                    const std::function<void(int64_t begin, int64_t end, int worker)>& body);
// Rows of `cols` numbers that make a piece of work worth handing out.
int64_t rows_per_chunk(int64_t cols);

// Scratch, taken piece by piece; a float_bytes() of a record's scratch_bytes for each floats().
class Scratch {
  public:
    explicit Scratch(std::span<std::byte> bytes) : left_(bytes) {}
    float* floats(int64_t count);

  private:
    std::span<std::byte> left_;
};
int64_t float_bytes(int64_t count);

// One row of f32 for each worker.
class WorkerRows {
  public:
    WorkerRows(Scratch& scratch, const OpSize& size, int64_t cols);
    float* operator[](int worker) const { return data_ + worker * stride_; }
    static int64_t bytes(const OpSize& size, int64_t cols);

  private:
    float* data_;
    int64_t stride_;
};

// Row `row` of a weight as the computation sees it: halves are joined where it is f32, else the base alone counts.
void read_weight_row(const Weight& weight, int64_t row, DType compute, float* to);
// The same for all of a weight of one row, in scratch.
const float* read_vector(const Weight& weight, const OpSize& size, Scratch& scratch);

// The k tangents of a weight of one row as f32.
class VectorTangents {
  public:
    VectorTangents(const Weight& weight, const OpSize& size, Scratch& scratch);
    static int64_t bytes(const OpSize& size, int64_t cols) { return float_bytes(size.k * cols); }
    // Null: zero.
    const float* operator[](int64_t mode) const { return data_ == nullptr ? nullptr : data_ + mode * cols_; }

  private:
    int64_t cols_;
    float* data_ = nullptr;
};

// The gradient of a weight of one row ([C]), summed over rows of values in an order fixed by shape: each chunk of
// rows has its own sums, and those are added up in the order of chunks.
class VectorGradient {
  public:
    VectorGradient(const GradientSink& sink, int64_t rows, int64_t cols, Scratch& scratch);
    static int64_t chunk_rows(int64_t rows);
    static int64_t bytes(int64_t rows, int64_t cols);
    bool wanted() const { return partial_ != nullptr; }
    // The sums of the chunk that begins at this row, zeroed; null when no gradient is needed.
    float* begin_chunk(int64_t begin_row);
    void finish(Team& team);

  private:
    GradientSink sink_;
    int64_t chunk_rows_, chunks_, cols_;
    float* partial_ = nullptr;
};

int64_t value_bytes(const ValueSpec& spec, const OpSize& size);
int64_t value_bytes(std::span<const ValueSpec> specs, const OpSize& size);
// The operations of an op per number of its output: forward, backward and per tangent. An op that reads nothing in
// backward is linear.
struct FlopsPerNumber {
    double forward, backward, tangent;
};
Cost streaming_cost(const OpSpec& spec, const OpSize& size, DiffMode mode, FlopsPerNumber flops, BackwardReads reads);

}  // namespace windlass
