#include "schedule/kernel_rate.h"

#include <algorithm>
#include <bit>
#include <set>

#include "model/segment.h"
#include "op/ops.h"
#include "schedule/machine.h"

namespace windlass {
namespace {

// Beyond these, more of the same is as fast: matrices are cut into panels, heads are shared among threads.
constexpr int64_t kSideMax = 4096, kHeadsMax = 16, kRowMax = 2048;
constexpr int64_t kAttentionTokens = 1024;
constexpr int64_t kTokensMin = 32, kTokensMax = 1024;
constexpr int kTangentsMax = 4;

// Still so that each key head has as many heads as every other; whole where that does not come out.
void cut_heads(AttentionAttrs& attrs) {
    const int64_t parts = attrs.heads / kHeadsMax;
    if (parts < 2 || attrs.heads % parts != 0) return;
    const int64_t heads = attrs.heads / parts, key_heads = std::max<int64_t>(1, attrs.key_heads / parts);
    if (heads % key_heads != 0) return;
    attrs.heads = heads;
    attrs.key_heads = key_heads;
}

OpSpec cut_attention(const OpSpec& spec) {
    AttentionAttrs attrs = spec.get<AttentionAttrs>();
    cut_heads(attrs);
    const int64_t queries = attrs.heads * attrs.head_size, keys = attrs.key_heads * attrs.head_size;
    OpSpec cut{.attrs = attrs};
    cut.in = spec.in.size() == 1 ? std::vector<ValueSpec>{{queries + 2 * keys}}
                                 : std::vector<ValueSpec>{{queries}, {keys}, {keys}};
    return cut;
}

// linear and cross_entropy: one matrix, and perhaps a bias.
OpSpec cut_product(const OpRecord& op, const OpSpec& spec) {
    const Shape& whole = spec.weights[0];
    const Shape weight{std::min(whole[0], kSideMax), std::min(whole[1], kSideMax)};
    const bool in_out = &op == &kLinear && spec.get<LinearAttrs>().in_out;
    OpSpec cut{.attrs = spec.attrs, .in = {{weight[in_out ? 0 : 1]}}, .weights = {weight}};
    if (spec.weights.size() > 1) cut.weights.push_back({weight[in_out ? 1 : 0]});
    return cut;
}

OpSize cut_size(const OpRecord& op, const OpSize& size) {
    OpSize cut{.rows = 1,
               .compute = size.compute,
               .k = std::min(size.k, kTangentsMax),
               .rank = size.rank,
               .threads = size.threads};
    const auto floor = [](int64_t tokens) {
        return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
    };
    if (&op == &kAttention) {
        cut.row_length = std::min(floor(size.row_length), kRowMax);
        cut.rows = std::clamp(floor(size.tokens()), cut.row_length, std::max(cut.row_length, kAttentionTokens)) /
                   cut.row_length;
    } else {
        cut.row_length = std::clamp(floor(size.tokens()), kTokensMin, kTokensMax);
    }
    return cut;
}

bool is_product(const OpRecord& op) {
    return &op == &kLinear || &op == &kCrossEntropy;
}

bool is_measured(const OpRecord& op, const OpSize& size) {
    if (size.cached > 0 || &op == &kEmbedding || &op == &kAdd) return false;
    return !is_product(op) || size.tokens() > kNarrowRows;
}

OpSpec cut_spec(const OpRecord& op, const OpSpec& spec) {
    if (&op == &kAttention) return cut_attention(spec);
    return is_product(op) ? cut_product(op, spec) : spec;
}

std::string shape_text(const OpRecord& op, const OpSpec& cut) {
    if (is_product(op)) return fmt::format("{}x{}", cut.weights[0][0], cut.weights[0][1]);
    if (&op != &kAttention) return fmt::format("{}", cut.in[0].cols);
    const auto& attrs = cut.get<AttentionAttrs>();
    return fmt::format("{}/{}x{}", attrs.heads, attrs.key_heads, attrs.head_size);
}

std::string tokens_text(const OpRecord& op, const OpSize& cut) {
    return &op == &kAttention ? fmt::format("{}x{}", cut.rows, cut.row_length) : fmt::format("{}", cut.row_length);
}

KernelCase kernel_case(const OpRecord& op, const OpSpec& spec, const OpSize& size, Direction direction) {
    KernelCase made{.op = &op, .spec = cut_spec(op, spec), .size = cut_size(op, size), .direction = direction};
    const std::string tangents =
        direction == Direction::tangent
            ? fmt::format(" k={}{}", made.size.k, size.rank > 0 ? fmt::format(" rank={}", size.rank) : "")
            : "";
    made.key = fmt::format("{} {}{} {} {} {}", op.name, direction_name(direction), tangents, dtype_name(size.compute),
                           shape_text(op, made.spec), tokens_text(op, made.size));
    return made;
}

// What such blocks cost is calling them: the rates by shape serve as well.
bool is_small(const Program& program) {
    constexpr int64_t kElements = 1 << 16;
    return std::all_of(program.weights.begin(), program.weights.end(),
                       [](const ProgramWeight& weight) { return weight.shape.numel() < kElements; });
}

// What a sweep asks of kernels: direction, and of a tangent how many directions and of which rank.
struct SweepKernels {
    Direction direction;
    int k = 1;
    int64_t rank = 0;
};

std::vector<SweepKernels> kernels_of(const Recipe& recipe) {
    std::vector<SweepKernels> list;
    for (const RecipeSweep& sweep : recipe.sweeps) {
        if (sweep.kind == SweepKind::tangent) list.push_back({Direction::tangent, sweep.k, sweep.rank});
        // Tangents go beside the values themselves.
        const bool reverse = sweep.kind == SweepKind::reverse;
        list.push_back({.direction = reverse ? Direction::backward : Direction::forward});
    }
    return list;
}

}  // namespace

std::string kernel_key(const OpRecord& op, const OpSpec& spec, const OpSize& size, Direction direction) {
    return is_measured(op, size) ? kernel_case(op, spec, size, direction).key : "";
}

std::vector<KernelCase> kernel_cases(const ModelSpec& model, const Recipe& recipe, std::span<const OpSize> sizes) {
    std::vector<KernelCase> cases;
    std::set<std::string> keys;
    std::set<const Program*> programs;
    const auto add = [&](const Node& node, OpSize size) {
        for (const auto& [direction, k, rank] : kernels_of(recipe)) {
            size.k = k;
            size.rank = rank;
            if (!is_measured(*node.op, size)) continue;
            KernelCase made = kernel_case(*node.op, node.spec, size, direction);
            if (keys.insert(made.key).second) cases.push_back(std::move(made));
        }
    };
    for (const Block& block : model.blocks) {
        if (!programs.insert(block.program.get()).second || is_small(*block.program)) continue;
        for (const Node& node : block.program->nodes) {
            for (const OpSize& size : sizes) add(node, size);
        }
    }
    return cases;
}

}  // namespace windlass
