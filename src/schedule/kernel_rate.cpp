#include "schedule/kernel_rate.h"

#include <algorithm>
#include <set>

#include "model/segment.h"
#include "schedule/machine.h"

namespace windlass {
namespace {

bool is_measured(const OpRecord& op, const OpSize& size) {
    if (size.cached > 0 || op.sample == nullptr) return false;
    return op.work != OpWork::product || size.tokens() > kNarrowRows;
}

KernelCase kernel_case(const OpRecord& op, const OpSpec& spec, const OpSize& size, DiffMode mode) {
    OpSample sample = op.sample(spec, size);
    const std::string tangents =
        mode == DiffMode::jvp
            ? fmt::format(" k={}{}", sample.size.k, size.rank > 0 ? fmt::format(" rank={}", size.rank) : "")
            : "";
    std::string key = fmt::format("{} {}{} {} {} {}", op.name, diff_mode_name(mode), tangents, dtype_name(size.compute),
                                  sample.shape, sample.tokens);
    return {std::move(key), &op, std::move(sample.spec), sample.size, mode};
}

// What such blocks cost is calling them: the rates by shape serve as well.
bool is_small(const Program& program) {
    constexpr int64_t kElements = 1 << 16;
    return std::all_of(program.weights.begin(), program.weights.end(),
                       [](const ProgramWeight& weight) { return weight.shape.numel() < kElements; });
}

// What a pass asks of kernels: direction, and of a tangent how many directions and of which rank.
struct SweepKernels {
    DiffMode mode;
    int k = 1;
    int64_t rank = 0;
};

std::vector<SweepKernels> kernels_of(const Recipe& recipe) {
    std::vector<SweepKernels> list;
    for (const RecipePass& pass : recipe.passes) {
        if (pass.kind == PassKind::tangent) list.push_back({DiffMode::jvp, pass.k, pass.rank});
        // Tangents go next to the values themselves.
        const bool backward = pass.kind == PassKind::backward;
        list.push_back({.mode = backward ? DiffMode::vjp : DiffMode::forward});
    }
    return list;
}

}  // namespace

std::string kernel_key(const OpRecord& op, const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return is_measured(op, size) ? kernel_case(op, spec, size, mode).key : "";
}

std::string update_key(const Recipe& recipe) {
    if (recipe.update() == nullptr) return "";
    return fmt::format("{} {}", recipe.name, recipe.update()->bytes_per_element);
}

std::vector<KernelCase> kernel_cases(const ModelSpec& model, const Recipe& recipe, std::span<const OpSize> sizes) {
    std::vector<KernelCase> cases;
    std::set<std::string> keys;
    std::set<const Program*> programs;
    const auto add = [&](const Node& node, OpSize size) {
        for (const auto& [mode, k, rank] : kernels_of(recipe)) {
            size.k = k;
            size.rank = rank;
            if (!is_measured(*node.op, size)) continue;
            KernelCase made = kernel_case(*node.op, node.spec, size, mode);
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
