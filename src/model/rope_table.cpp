#include "model/rope_table.h"

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

bool turns_by_long_table(const ModelSpec& model, int64_t tokens) {
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kRope) continue;
            const auto& attrs = node.spec.get<RopeAttrs>();
            if (!attrs.long_frequencies.empty() && tokens > attrs.short_length) return true;
        }
    }
    return false;
}

}  // namespace windlass
