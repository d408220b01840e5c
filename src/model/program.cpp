#include "model/program.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace windlass {

bool Node::operator==(const Node& other) const {
    return op == other.op && in == other.in && weights == other.weights && out == other.out && saved == other.saved &&
           same_op(*op, spec, other.spec);
}

bool Program::operator==(const Program& other) const {
    return values == other.values && weights == other.weights && nodes == other.nodes && inputs == other.inputs &&
           outputs == other.outputs;
}

bool gives_output_in_reverse(const Program& program, const Node& node) {
    return node.op->backward_computes_out && std::ranges::find(program.outputs, node.out[0]) != program.outputs.end();
}

std::string Program::to_string() const {
    std::string text;
    const auto names = [&](const std::vector<int>& ids) {
        std::vector<std::string> out;
        for (const int id : ids) {
            const Value& value = values[static_cast<size_t>(id)];
            out.push_back(
                fmt::format("%{}:{}{}", value.name, value.spec.cols, value.spec.type == ValueType::f32 ? "f" : ""));
        }
        return fmt::format("{}", fmt::join(out, ", "));
    };
    text += fmt::format("({})\n", names(inputs));
    for (const Node& node : nodes) {
        std::vector<std::string> roles;
        for (const int id : node.weights) {
            const ProgramWeight& weight = weights[static_cast<size_t>(id)];
            roles.push_back(fmt::format("{}{}", weight.role, weight.shape.to_string()));
        }
        text += fmt::format("{} = {} ({}; {})\n", names(node.out), windlass::to_string(*node.op, node.spec),
                            names(node.in), fmt::join(roles, ", "));
    }
    return text + fmt::format("-> ({})\n", names(outputs));
}

int ProgramBuilder::add_value(std::string name, ValueSpec spec) {
    program_.values.push_back({std::move(name), spec});
    return static_cast<int>(program_.values.size()) - 1;
}

int ProgramBuilder::input(std::string name, int64_t cols) {
    const int id = add_value(std::move(name), {cols, ValueType::compute});
    program_.inputs.push_back(id);
    return id;
}

int ProgramBuilder::weight(std::string role, Shape shape) {
    program_.weights.push_back({std::move(role), shape});
    return static_cast<int>(program_.weights.size()) - 1;
}

int ProgramBuilder::apply(const OpRecord& op, std::string name, std::vector<int> in, std::vector<int> weights,
                          std::any attrs) {
    Node node{.op = &op, .in = std::move(in), .weights = std::move(weights)};
    node.spec.attrs = std::move(attrs);
    for (const int id : node.in) node.spec.in.push_back(program_.values[static_cast<size_t>(id)].spec);
    for (const int id : node.weights) node.spec.weights.push_back(program_.weights[static_cast<size_t>(id)].shape);
    op.infer(node.spec);
    WINDLASS_CHECK(node.spec.out.size() == 1, "{} has {} outputs", op.name, node.spec.out.size());
    for (size_t i = 0; i < node.spec.saved.size(); ++i) {
        node.saved.push_back(add_value(fmt::format("{}.saved{}", name, i), node.spec.saved[i]));
    }
    node.out.push_back(add_value(std::move(name), node.spec.out[0]));
    program_.nodes.push_back(std::move(node));
    return program_.nodes.back().out[0];
}

Program ProgramBuilder::finish(std::vector<int> outputs) {
    program_.outputs = std::move(outputs);
    return std::move(program_);
}

}  // namespace windlass
