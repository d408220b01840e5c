// kernel_rate.h: kernels as models call them, by what decides how fast a machine runs them.
//
// A rate of large products alone says too little: gradients of weights, narrow matrices and attention backward reach
// from 0.6 to all of it, norms are far from the memory's rate, and which of them are depends on the processor. So a
// machine has rates of kernels (Machine::kernels), measured where a model is planned for the machine at hand.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "method/recipe.h"
#include "model/spec.h"
#include "op/op.h"

namespace windlass {

// A call that represents all calls of its key: large ones are cut down to a size with the same rate.
struct KernelCase {
    std::string key;
    const OpRecord* op = nullptr;
    OpSpec spec;
    OpSize size;
    DiffMode mode = DiffMode::forward;
};

// "linear backward bf16 384x1152 512": the kernel, its direction, type, weight [rows x cols as stored], heads or
// columns, and tokens. Empty for what only looks up or copies, and for products so narrow that they have a rate of
// their own (GemmShape::narrow).
std::string kernel_key(const OpRecord& op, const OpSpec& spec, const OpSize& size, DiffMode mode);

// "adamw 16": the update of a method that moves 16 bytes a number (ParamKernel::bytes_per_element). An update with
// half the bytes is seldom twice as fast, since it rounds. Empty for a recipe without an update.
std::string update_key(const Recipe& recipe);

// The kernels of this model's steps with micro-batches of these sizes, each key once. Leaves out blocks so small that
// they cost only the calls. Of a size: rows, sequence_length, compute.
std::vector<KernelCase> kernel_cases(const ModelSpec& model, const Recipe& recipe, std::span<const OpSize> sizes);

}  // namespace windlass
