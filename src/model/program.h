// program.h: a block as a straight line of ops over named values; it prints itself.
//
// A Program knows shapes in columns only: rows are the tokens of whatever micro-batch comes. It has no control flow,
// moves nothing and knows no tier. Blocks of equal shape share one Program.
#pragma once

#include <any>
#include <initializer_list>
#include <string>
#include <vector>

#include "op/op.h"

namespace windlass {

struct Value {
    std::string name;
    ValueSpec spec;
    bool operator==(const Value&) const = default;
};

struct Node {
    const OpRecord* op = nullptr;
    OpSpec spec;
    std::vector<int> in;       // values
    std::vector<int> weights;  // the program's weights
    std::vector<int> out;      // values
    std::vector<int> saved;    // values: the op's private outputs
    bool operator==(const Node& other) const;
};

struct ProgramWeight {
    std::string role;  // "self_attn.q_proj.weight": unique within the block
    Shape shape;
    bool operator==(const ProgramWeight&) const = default;
};

struct Program {
    std::vector<Value> values;
    std::vector<ProgramWeight> weights;
    std::vector<Node> nodes;
    std::vector<int> inputs;   // values: the residual stream coming in; empty for the embedding block
    std::vector<int> outputs;  // values: the residual stream going out, the loss, or logits

    // One line a node: "%h = rms_norm eps=1e-05 (%x; input_layernorm.weight)". Attributes are rounded as they print, so
    // programs of equal text may differ.
    std::string to_string() const;
    // The same ops with the same attributes, in one order, on values and weights of the same names and shapes.
    bool operator==(const Program& other) const;
};

// A loss fused with its gradient, at the end of a program: the backward pass computes the program's output, and gets
// no gradient from outside.
bool gives_output_in_reverse(const Program& program, const Node& node);

// Writes a Program down in order; each call runs the op's shape rule, so a mistake stops where it is made.
class ProgramBuilder {
  public:
    ProgramBuilder() = default;
    // Continues after a program.
    explicit ProgramBuilder(Program program) : program_(std::move(program)) {}
    int input(std::string name, int64_t cols);
    int weight(std::string role, Shape shape);
    // Returns the op's only output.
    int apply(const OpRecord& op, std::string name, std::vector<int> in, std::vector<int> weights = {},
              std::any attrs = {});
    Program finish(std::vector<int> outputs);

  private:
    int add_value(std::string name, ValueSpec spec);
    Program program_;
};

}  // namespace windlass
