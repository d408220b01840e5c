#include "model/rope_table.h"

#include <algorithm>

#include "model/program.h"
#include "op/ops.h"

namespace windlass {

std::vector<double> rope_table(const ModelSpec& model) {
    std::vector<double> table;
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kRope) continue;
            const auto& attrs = node.spec.get<RopeAttrs>();
            table.insert(table.end(), attrs.frequencies.begin(), attrs.frequencies.end());
            table.insert(table.end(), attrs.long_frequencies.begin(), attrs.long_frequencies.end());
        }
    }
    return table;
}

int64_t positions_for(const ModelSpec& model, int64_t prompt_tokens) {
    int64_t most = model.context_length;
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kRope) continue;
            const auto& attrs = node.spec.get<RopeAttrs>();
            if (!attrs.long_frequencies.empty() && prompt_tokens < attrs.short_length)
                most = std::min(most, attrs.short_length);
        }
    }
    return most;
}

}  // namespace windlass
