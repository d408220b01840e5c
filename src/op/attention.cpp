#include "op/attention.h"

#include "op/attention_cuda.h"
#include "op/attention_tiles.h"
#include "op/cuda_kernels.h"
#include "op/sample.h"

namespace windlass {
namespace attention_op {

void infer(OpSpec& spec) {
    const auto& attrs = spec.get<AttentionAttrs>();
    const int64_t queries = attrs.heads * attrs.head_size, keys = attrs.key_heads * attrs.head_size;
    WINDLASS_CHECK(attrs.key_heads > 0 && attrs.heads > 0 && attrs.heads % attrs.key_heads == 0 &&
                       attrs.head_size > 0 && attrs.scale > 0 && attrs.window >= 0 && attrs.softcap >= 0,
                   "attention of {} heads over {} key heads of size {}", attrs.heads, attrs.key_heads, attrs.head_size);
    const bool packed = spec.in.size() == 1 && spec.in[0].cols == queries + 2 * keys;
    const bool apart =
        spec.in.size() == 3 && spec.in[0].cols == queries && spec.in[1].cols == keys && spec.in[2].cols == keys;
    WINDLASS_CHECK((packed || apart) && spec.weights.empty(), "attention of {} inputs, the first of {} columns",
                   spec.in.size(), spec.in.empty() ? 0 : spec.in[0].cols);
    spec.out = {{.cols = queries}};
    spec.saved = {{.cols = attrs.heads, .type = ValueType::f32}};
}

// Pairs of a query and a key that it sees in one head: exactly, and as whole tiles visit them. Documents are not
// known here: rows count as one.
struct Pairs {
    double seen = 0, visited = 0;
};

// What a device's kernels visit, and in how many products each pair takes part.
struct AttentionWork {
    int64_t query_tile, key_step;
    int backward;  // products
    int tangent;   // for each direction
};
// Backward: those that make p again, dp, dq, dk and dv; tangent: q k again, dq k + q dk, p dv and dp v.
constexpr AttentionWork kCpuWork{.query_tile = kQueryTile, .key_step = kKeyStep, .backward = 5, .tangent = 5};
// Backward without atomics sums dq by queries, and dk and dv by keys, so q k and dp are made twice; a tangent makes the
// sums of p v again, too.
constexpr AttentionWork kCudaWork{.query_tile = 64, .key_step = 64, .backward = 7, .tangent = 6};

Pairs count_pairs(const AttentionAttrs& attrs, const OpSize& size, const AttentionWork& work) {
    Pairs pairs;
    const auto first_key = [&](int64_t query) {
        return attrs.window == 0 ? 0 : std::max<int64_t>(0, size.cached + query - attrs.window + 1);
    };
    for (int64_t begin = 0; begin < size.sequence_length; begin += work.query_tile) {
        const int64_t end = std::min(size.sequence_length, begin + work.query_tile);
        const int64_t keys = size.cached + end - first_key(begin) / work.key_step * work.key_step;
        pairs.visited += static_cast<double>((end - begin) * keys);
        for (int64_t query = begin; query < end; ++query) {
            pairs.seen += static_cast<double>(size.cached + query + 1 - first_key(query));
        }
    }
    const auto heads = static_cast<double>(attrs.heads * size.rows);
    return {pairs.seen * heads, pairs.visited * heads};
}

// Forward: q k and p v. The tangent counts forward, too.
template <AttentionWork kWork>
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const auto& attrs = spec.get<AttentionAttrs>();
    const Pairs pairs = count_pairs(attrs, size, kWork);
    const double product = 2.0 * static_cast<double>(attrs.head_size);
    const int64_t values = value_bytes(spec.in, size) + value_bytes(spec.out, size) + value_bytes(spec.saved, size);
    switch (mode) {
        case DiffMode::forward:
            return {2 * product * pairs.visited, 2 * product * pairs.seen, values};
        case DiffMode::vjp:
            return {kWork.backward * product * pairs.visited, 4 * product * pairs.seen, 2 * values};
        case DiffMode::jvp:
            return {(2 + kWork.tangent * size.k) * product * pairs.visited, (2 + 4 * size.k) * product * pairs.seen,
                    (1 + size.k) * values};
    }
    return {};
}

int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t head_size = spec.get<AttentionAttrs>().head_size;
    switch (mode) {
        case DiffMode::forward:
            return size.threads * ForwardSpace::bytes(head_size);
        case DiffMode::vjp:
            return size.threads * BackwardSpace::bytes(head_size, size.sequence_length);
        case DiffMode::jvp:
            return size.threads * TangentSpace::bytes(head_size);
    }
    return 0;
}

// Of CUDA: the sums of dO * O.
int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return mode == DiffMode::vjp ? float_bytes(size.tokens() * spec.get<AttentionAttrs>().heads) : 0;
}

// Heads of other sizes than tensor cores take. In f32 there are no others to miss.
std::string slow_kernels_cuda(const OpSpec& spec, const OpSize& size) {
    const auto& attrs = spec.get<AttentionAttrs>();
    if (size.compute != DType::bf16 || tensor_core_size(attrs.head_size, attrs.softcap > 0) != 0) return "";
    return fmt::format("f32 kernels without tensor cores, for heads of {} numbers", attrs.head_size);
}

// Still so that each key head has as many heads as every other; whole where that does not come out.
void cut_heads(AttentionAttrs& attrs) {
    constexpr int64_t kHeadsMax = 16;  // heads are shared among threads
    const int64_t parts = attrs.heads / kHeadsMax;
    if (parts < 2 || attrs.heads % parts != 0) return;
    const int64_t heads = attrs.heads / parts, key_heads = std::max<int64_t>(1, attrs.key_heads / parts);
    if (heads % key_heads != 0) return;
    attrs.heads = heads;
    attrs.key_heads = key_heads;
}

// Fewer heads, and rows no longer than beyond which more is as fast.
OpSample sample(const OpSpec& spec, const OpSize& size) {
    const SampleLimits limits = sample_limits(size.device);
    AttentionAttrs attrs = spec.get<AttentionAttrs>();
    cut_heads(attrs);
    const int64_t queries = attrs.heads * attrs.head_size, keys = attrs.key_heads * attrs.head_size;
    OpSample made{.spec = {.attrs = attrs}, .size = sample_size(size), .shape = {}, .tokens = {}};
    made.spec.in = spec.in.size() == 1 ? std::vector<ValueSpec>{{queries + 2 * keys}}
                                       : std::vector<ValueSpec>{{queries}, {keys}, {keys}};
    OpSize& cut = made.size;
    cut.sequence_length = std::min(power_of_two_below(size.sequence_length), limits.row);
    cut.rows = std::clamp(power_of_two_below(size.tokens()), cut.sequence_length,
                          std::max(cut.sequence_length, limits.tokens)) /
               cut.sequence_length;
    made.shape = fmt::format("{}/{}x{}", attrs.heads, attrs.key_heads, attrs.head_size);
    if (attrs.softcap > 0) made.shape += "-softcap";
    made.tokens = fmt::format("{}x{}", cut.rows, cut.sequence_length);
    return made;
}

int64_t cache_columns(const OpSpec& spec) {
    const auto& attrs = spec.get<AttentionAttrs>();
    return attrs.key_heads * attrs.head_size;
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<AttentionAttrs>();
    std::string text = fmt::format("heads={} key_heads={} head_size={} scale={:.6g}", attrs.heads, attrs.key_heads,
                                   attrs.head_size, attrs.scale);
    if (attrs.window != 0) text += fmt::format(" window={}", attrs.window);
    return attrs.softcap == 0 ? text : text + fmt::format(" softcap={:.6g}", attrs.softcap);
}

struct CaseShape {
    int64_t heads, key_heads, head_size, sequence_length, window;
    bool packed, documents;
    double softcap = 0;
};

OpCase make_case(std::string name, CaseShape shape) {
    OpCase test{.name = std::move(name), .sequence_length = shape.sequence_length, .documents = shape.documents};
    test.weight_scale = 1;
    const int64_t queries = shape.heads * shape.head_size, keys = shape.key_heads * shape.head_size;
    test.spec.attrs = AttentionAttrs{.heads = shape.heads,
                                     .key_heads = shape.key_heads,
                                     .head_size = shape.head_size,
                                     .scale = 1 / std::sqrt(static_cast<double>(shape.head_size)),
                                     .window = shape.window,
                                     .softcap = shape.softcap};
    if (shape.packed) {
        test.spec.in = {{.cols = queries + 2 * keys}};
    } else {
        test.spec.in = {{.cols = queries}, {.cols = keys}, {.cols = keys}};
    }
    return test;
}

// Rows of several key tiles: attention_test.cpp, and tests/agree/attention_rows_test.cpp.
std::vector<OpCase> cases() {
    return {make_case("packed", {2, 2, 8, 16, 0, true, false}),
            make_case("apart, grouped heads", {4, 2, 8, 19, 0, false, false}),
            make_case("one key head, odd sizes", {3, 1, 5, 37, 0, false, false}),
            make_case("documents", {2, 1, 8, 40, 0, false, true}),
            make_case("window", {2, 2, 8, 40, 7, true, false}),
            make_case("window and documents", {2, 1, 4, 50, 9, false, true}),
            make_case("several query tiles", {1, 1, 4, 150, 0, true, true}),
            make_case("size 64, window over tiles", {2, 1, 64, 70, 6, false, false}),
            make_case("size 80, window and documents", {1, 1, 80, 90, 40, true, true}),
            make_case("softcap", {2, 1, 8, 19, 0, false, false, 1.5}),
            make_case("softcap, window and documents", {2, 1, 5, 50, 9, true, true, 0.75}),
            make_case("size 128, softcap", {1, 1, 128, 11, 0, false, false, 2.5})};
}

constexpr OpKernels kCpu{.forward = attention_forward_cpu, .vjp = attention_backward_cpu, .jvp = attention_tangent_cpu};

}  // namespace attention_op

constinit const OpRecord kAttention{
    .name = "attention",
    .infer = attention_op::infer,
    .work = OpWork::attention,
    .sample = attention_op::sample,
    .describe = attention_op::describe,
    .same_attributes = equal_attributes<AttentionAttrs>,
    .reads = {.in = true, .out = true},
    .cache_columns = attention_op::cache_columns,
    .cases = attention_op::cases,
    .cells = cells_of({.cost = attention_op::cost<attention_op::kCpuWork>,
                       .scratch_bytes = attention_op::scratch_bytes,
                       .kernels = &attention_op::kCpu},
                      {.cost = attention_op::cost<attention_op::kCudaWork>,
                       .scratch_bytes = attention_op::scratch_bytes_cuda,
                       .kernels = &kAttentionCuda,
                       .slow_kernels = attention_op::slow_kernels_cuda}),
};

}  // namespace windlass
