#include "model/sublayers.h"

#include <algorithm>
#include <map>

#include "base/index.h"

namespace windlass {
namespace {

bool has_product(const Program& program, const Node& node) {
    return std::any_of(node.weights.begin(), node.weights.end(),
                       [&](int weight) { return program.weights[at(weight)].shape.rank() > 1; });
}

// Where a part ends, and the values that later parts read.
struct Cut {
    int last_node = 0;
    std::vector<int> values;
};

std::vector<Cut> cuts_of(const Program& program) {
    constexpr int kNever = -1;
    const int count = static_cast<int>(program.nodes.size());
    std::vector<int> last_use(program.values.size(), kNever);
    for (int node = 0; node < count; ++node) {
        for (const int value : program.nodes[at(node)].in) last_use[at(value)] = node;
    }
    for (const int value : program.outputs) last_use[at(value)] = count;
    std::vector<int> made(program.inputs);
    int products_left = static_cast<int>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                                       [&](const Node& node) { return has_product(program, node); }));
    std::vector<Cut> cuts;
    bool multiplies = false;  // the part so far
    for (int node = 0; node + 1 < count; ++node) {
        const Node& each = program.nodes[at(node)];
        made.insert(made.end(), each.out.begin(), each.out.end());
        if (has_product(program, each)) {
            multiplies = true;
            --products_left;
        }
        made.erase(std::remove_if(made.begin(), made.end(), [&](int value) { return last_use[at(value)] <= node; }),
                   made.end());
        if (!multiplies || products_left == 0 || made.size() != 1) continue;
        cuts.push_back({node, made});
        multiplies = false;
    }
    cuts.push_back({count - 1, program.outputs});
    return cuts;
}

// A part of a program, and which of the program's weights it has.
struct Part {
    std::shared_ptr<const Program> program;
    std::vector<int> weights;
};

// Writes some nodes down with the values and weights that they name.
class PartWriter {
  public:
    explicit PartWriter(const Program& whole)
        : whole_(whole), value_(whole.values.size(), kNone), weight_(whole.weights.size(), kNone) {}

    // Nodes [first, end), between the values that come in and those that go out.
    Part write(int first, int end, const std::vector<int>& inputs, const std::vector<int>& outputs) {
        part_.inputs = values(inputs);
        for (int node = first; node < end; ++node) {
            Node each = whole_.nodes[at(node)];
            each.in = values(each.in);
            each.weights = weights(each.weights);
            each.out = values(each.out);
            each.saved = values(each.saved);
            part_.nodes.push_back(std::move(each));
        }
        part_.outputs = values(outputs);
        return {std::make_shared<const Program>(std::move(part_)), std::move(kept_)};
    }

  private:
    static constexpr int kNone = -1;

    std::vector<int> values(std::vector<int> names) {
        for (int& name : names) {
            int& index = value_[at(name)];
            if (index == kNone) {
                index = static_cast<int>(part_.values.size());
                part_.values.push_back(whole_.values[at(name)]);
            }
            name = index;
        }
        return names;
    }
    std::vector<int> weights(std::vector<int> names) {
        for (int& name : names) {
            int& index = weight_[at(name)];
            if (index == kNone) {
                index = static_cast<int>(part_.weights.size());
                part_.weights.push_back(whole_.weights[at(name)]);
                kept_.push_back(name);
            }
            name = index;
        }
        return names;
    }

    const Program& whole_;
    Program part_;
    std::vector<int> value_, weight_;  // by the whole's: their index in the part
    std::vector<int> kept_;
};

std::vector<Part> parts_of(const Program& program) {
    std::vector<Part> parts;
    std::vector<int> inputs = program.inputs;
    int first = 0;
    for (const Cut& cut : cuts_of(program)) {
        parts.push_back(PartWriter(program).write(first, cut.last_node + 1, inputs, cut.values));
        inputs = cut.values;
        first = cut.last_node + 1;
    }
    return parts;
}

}  // namespace

ModelSpec in_sublayers(const ModelSpec& model) {
    ModelSpec result = model;
    result.blocks.clear();
    std::map<const Program*, std::vector<Part>> known;
    for (size_t index = 0; index < model.blocks.size(); ++index) {
        const Block& block = model.blocks[index];
        if (index == 0 || index + 1 == model.blocks.size()) {
            result.blocks.push_back(block);
            continue;
        }
        const auto [entry, is_new] = known.try_emplace(block.program.get());
        if (is_new) entry->second = parts_of(*block.program);
        for (size_t part = 0; part < entry->second.size(); ++part) {
            const Part& each = entry->second[part];
            Block made{.name = fmt::format("{}/{}", block.name, part), .program = each.program, .params = {}};
            for (const int weight : each.weights) made.params.push_back(block.params[at(weight)]);
            result.blocks.push_back(std::move(made));
        }
    }
    for (size_t block = result.blocks.size(); block-- > 0;) {
        for (const int param : result.blocks[block].params) result.params[at(param)].block = static_cast<int>(block);
    }
    return result;
}

}  // namespace windlass
