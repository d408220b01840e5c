// op.h: an op is one record: a shape rule, forward, backward, tangent, a cost, named saved outputs, test cases.
//
// Values are matrices [T, C]: T tokens of the micro-batch by C columns, row-major. A record says what an op is;
// kernels are cells in a table per device, in files next to it (x_cpu.cpp). all.cpp is the list.
//
//   forward   out = f(in, weights)
//   backward  grad_in = (df/din)^T grad_out, and each weight's part goes to its GradientSink
//   tangent   tangent_out = (df/din) tangent_in + (df/dweights) direction, for k directions at once, each in full or as
//             factors
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "op/batch.h"
#include "tensor/tensor.h"

namespace windlass {

enum class DiffMode : uint8_t { forward, vjp, jvp };

// The element type of a value: that of the computation (bf16 or f32, from Numerics), or f32 whatever it is.
enum class ValueType : uint8_t { compute, f32 };

struct ValueSpec {
    int64_t cols = 0;
    ValueType type = ValueType::compute;
    bool operator==(const ValueSpec& other) const = default;
};

// A weight as a kernel sees it.
//   base       [rows, cols] or [cols], bf16 or f32
//   low        empty, or the low halves (i16) of split masters, whose high halves are `base`: an f32
//              computation joins them (tensor/dtype.h)
//   direction  empty, or k dense tangents [k * rows, cols] / [k, cols], in the computation's type
//   left       empty, or instead of a matrix's `direction` the factors of k tangents left_j^T right_j, in f32:
//   right      [k * rank, rows] and [k * rank, cols], rank as factor_rank says
struct Weight {
    Tensor base;
    Tensor low;
    Tensor direction;
    Tensor left, right;
};

// Where a weight's gradient is accumulated: dW is added to `target`, or written there where `first` says that target
// holds nothing yet. A gradient that is not wanted has an empty target.
struct GradientSink {
    Tensor target;  // f32, the shape of the weight
    bool first = false;
    bool wanted() const { return !target.empty(); }
};

// An op in its place in a program: attributes, shapes, and what the shape rule made of them.
struct OpSpec {
    std::any attrs;  // the op's own attribute struct, or empty
    std::vector<ValueSpec> in;
    std::vector<Shape> weights;    // as the kernel sees them
    std::vector<ValueSpec> out;    // filled by infer
    std::vector<ValueSpec> saved;  // filled by infer: private outputs of forward that backward needs ([T, cols])

    template <typename T>
    const T& get() const {
        const T* attributes = std::any_cast<T>(&attrs);
        WINDLASS_CHECK(attributes != nullptr, "an op was given another op's attributes");
        return *attributes;
    }
};

// OpRecord::same_attributes of an op with these attributes.
template <typename Attrs>
bool equal_attributes(const OpSpec& one, const OpSpec& other) {
    return one.get<Attrs>() == other.get<Attrs>();
}

// Everything that decides how much an op costs or how much scratch it needs, apart from its OpSpec.
struct OpSize {
    int64_t rows = 0;  // of the batch
    int64_t sequence_length = 0;
    DeviceKind device = DeviceKind::cpu;
    DType compute = DType::f32;
    bool split_weights = false;  // weights arrive as base + low and must be joined
    int k = 1;                   // directions, for tangent
    int64_t rank = 0;            // for tangent: directions of matrices come as factors of at most this rank; 0: in full
    int threads = 1;             // scratch per worker; never changes bits
    int64_t cached = 0;
    bool trains_weights = true;  // backward: the gradient of the first weight is needed, as a matrix's may not be

    int64_t tokens() const { return rows * sequence_length; }
};

struct Cost {
    double flops = 0;        // multiply-adds count two; what the hardware does
    double model_flops = 0;  // what the model needs: without what a kernel computes twice
    int64_t bytes = 0;       // moved to and from memory at least
};

// What an op's time goes by: bytes, products of matrices, or products of attention, which run at a rate of their own.
enum class OpWork : uint8_t { traffic, product, attention };

// A call that represents all calls at its rate: large ones are cut down. `shape` and `tokens` name it.
struct OpSample {
    OpSpec spec;
    OpSize size;
    std::string shape, tokens;
};

// Arguments of a kernel. A tensor whose data is null was not kept or is not wanted.
struct OpCall {
    const OpSpec* spec = nullptr;
    const OpSize* size = nullptr;
    const Batch* batch = nullptr;
    const HeadParams* head = nullptr;
    std::span<const Tensor> in;     // [T, C]
    std::span<const Tensor> out;    // [T, C]
    std::span<const Tensor> saved;  // [T, C]
    std::span<const Weight> weights;
    std::span<const Tensor> grad_out;  // backward: [T, C], read only
    std::span<const Tensor> grad_in;   // backward: written, or added to where add_to_grad_in says so
    std::span<const uint8_t> add_to_grad_in;
    std::span<const GradientSink> sinks;  // backward: one per weight
    std::span<const Tensor> tangent_in;   // tangent: [k * T, C]
    std::span<const Tensor> tangent_out;  // tangent: [k * T, C]
    Tensor cache_keys, cache_values;      // decoding: attention's cache [rows * capacity, Hk * D], else empty
    std::span<std::byte> scratch;         // OpCells::scratch_bytes of it, 64-byte aligned
};

using Kernel = void (*)(const OpCall& call, Stream& stream);

// An op's kernels on one device. What a build does not have is null.
struct OpKernels {
    Kernel forward = nullptr;
    Kernel vjp = nullptr;  // backward
    Kernel jvp = nullptr;  // tangents
    // Forward of several calls that read one input and nothing of each other; null: one after the other.
    void (*together)(std::span<const OpCall> calls, Stream& stream) = nullptr;

    Kernel of(DiffMode mode) const { return mode == DiffMode::forward ? forward : mode == DiffMode::vjp ? vjp : jvp; }
};

// An op on one device: its kernels, and what they take.
struct OpCells {
    Cost (*cost)(const OpSpec& spec, const OpSize& size, DiffMode mode) = nullptr;
    int64_t (*scratch_bytes)(const OpSpec& spec, const OpSize& size, DiffMode mode) = nullptr;  // null: none
    const OpKernels* kernels = nullptr;
    // Which slow kernels take such a call, and why: "f32 kernels without tensor cores, for heads of 20 numbers"; empty:
    // none do. null: never.
    std::string (*slow_kernels)(const OpSpec& spec, const OpSize& size) = nullptr;

    Kernel of(DiffMode mode) const { return kernels == nullptr ? nullptr : kernels->of(mode); }
};

// By DeviceKind. `fake` replaces a GPU: its kernels take what CUDA's take.
constexpr std::array<OpCells, kDeviceKinds> cells_of(const OpCells& cpu, const OpCells& cuda) {
    return {cpu, {.cost = cuda.cost, .scratch_bytes = cuda.scratch_bytes}, cuda};
}

// What backward reads of forward, so that only that is kept.
struct BackwardReads {
    bool in = false;
    bool out = false;
    bool in_for_weights = false;  // `in` is read for the weights' gradients alone: not where none is trained
};

// A case of the agreement test: shapes and attributes; values come from a seed.
struct OpCase {
    std::string name;
    OpSpec spec;
    int64_t rows = 2;
    int64_t sequence_length = 16;
    bool documents = false;     // rows hold several documents and padding
    double weight_scale = 0.5;  // standard deviation of weights and inputs
    bool positive = false;      // inputs are positive, as losses are
    bool prompts = false;       // rows of pairs have prompts with targets (Batch::answers)
};

struct OpRecord {
    std::string_view name;
    // Checks in, weights and attrs; fills out and saved.
    void (*infer)(OpSpec& spec) = nullptr;
    OpWork work = OpWork::traffic;
    // What is measured in place of a call (sample.h); null: it only looks up or copies, and has no rate of its own.
    OpSample (*sample)(const OpSpec& spec, const OpSize& size) = nullptr;
    std::string (*describe)(const OpSpec& spec) = nullptr;  // attributes, for printing; null: none
    // Whether two specs ask for the same: printed numbers are rounded, and long ones summed up. null: no attributes.
    bool (*same_attributes)(const OpSpec& one, const OpSpec& other) = nullptr;
    BackwardReads reads;
    // Weights before this one have a gradient and tangents here. Those from it on are constants to the op: their sinks
    // are left alone and their directions move nothing, whether another op of the program trains them or not.
    size_t first_constant_weight = SIZE_MAX;
    // Forward calls of one input, as neighbours, are worth running together; null: never.
    bool (*joins)(const OpSpec& spec, const OpSize& size) = nullptr;
    // Columns of the keys, and of the values, that decoding caches of each token; null: none.
    int64_t (*cache_columns)(const OpSpec& spec) = nullptr;
    // backward is the identity onto every input (add): a backward pass hands the gradient on instead of calling it.
    bool passes_gradient = false;
    // backward also computes `out` (a loss fused with its own gradient): a training pass runs no forward for it.
    bool backward_computes_out = false;
    std::vector<OpCase> (*cases)() = nullptr;
    std::array<OpCells, kDeviceKinds> cells{};  // indexed by DeviceKind

    const OpCells& on(DeviceKind device) const { return cells[static_cast<size_t>(device)]; }
    Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) const {
        return on(size.device).cost(spec, size, mode);
    }
    int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) const {
        const OpCells& cells = on(size.device);
        return cells.scratch_bytes == nullptr ? 0 : cells.scratch_bytes(spec, size, mode);
    }
};

// The list (all.cpp).
std::span<const OpRecord* const> all_ops();

DType dtype_of(ValueType type, DType compute);
// The rank of the factors that directions of a weight of this shape come as; 0: they come in full.
int64_t factor_rank(const OpSize& size, const Shape& weight);
bool same_op(const OpRecord& op, const OpSpec& one, const OpSpec& other);
// "rms_norm eps=1e-05": name and attributes.
std::string to_string(const OpRecord& op, const OpSpec& spec);

}  // namespace windlass
