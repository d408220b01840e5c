#include "model/rope_table.h"

#include "model/program.h"
#include "op/ops.h"

namespace windlass {

std::vector<double> rope_table(const ModelSpec& model) {
    std::vector<double> table;
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kRope) continue;
            const std::vector<double>& frequencies = node.spec.get<RopeAttrs>().frequencies;
            table.insert(table.end(), frequencies.begin(), frequencies.end());
        }
    }
    return table;
}

}  // namespace windlass
