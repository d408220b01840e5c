// visit_layers.h: the layers of a model's own to which an adapter may be added, as its programs have them.
#pragma once

#include <string>

#include "base/index.h"
#include "model/adapters/adapter.h"
#include "op/ops.h"

namespace windlass {

// Whether an adapter may be next to what this node computes.
bool is_layer(const Node& node);
LinearLayer layer_at(const Program& program, const Node& node);
// A layer's name, by its weight in a block. A tied table has two names.
std::string name_in(const ModelSpec& model, const Block& block, int weight);

// Calls body(block, node, layer) for each layer of the model's own; for the head twice, with its loss and without.
template <typename Body>
void for_layers(const ModelSpec& model, Body body) {
    const auto visit = [&](const Block& block) {
        for (const Node& node : block.program->nodes) {
            if (!is_layer(node)) continue;
            const int weight = node.weights[0], param = block.params[at(weight)];
            if (model.params[at(param)].added) continue;
            body(block, node, block.program->weights[at(weight)].role == kHeadRole ? kHeadLayer : param);
        }
    };
    for (const Block& block : model.blocks) visit(block);
    visit(model.logits);
}

}  // namespace windlass
