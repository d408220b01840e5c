#include "model/saved.h"

#include <algorithm>

#include "base/index.h"
#include "model/segment_writer.h"

namespace windlass {
namespace {

Region region_of(SaveChoice choice) {
    switch (choice) {
        case SaveChoice::keep:
            return Region::saved;
        case SaveChoice::keep_second:
            return Region::saved_second;
        case SaveChoice::keep_third:
            return Region::saved_third;
        case SaveChoice::recompute:
            return Region::none;
    }
    return Region::none;
}

bool trains(const Node& node, const std::vector<uint8_t>& trainable) {
    const size_t count = std::min(node.weights.size(), node.op->first_constant_weight);
    return std::any_of(node.weights.begin(), node.weights.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](int weight) { return trainable.empty() || trainable[at(weight)] != 0; });
}

// Those of the values read that forward makes, in order.
std::vector<int> made_by_forward(const Program& program, std::vector<bool> read) {
    for (const int input : program.inputs) read[at(input)] = false;
    for (const int output : program.outputs)
        WINDLASS_CHECK(!read[at(output)], "a block's output may not be read by its own backward");
    std::vector<int> values;
    for (int value = 0; value < static_cast<int>(read.size()); ++value) {
        if (read[at(value)]) values.push_back(value);
    }
    return values;
}

// What some backward of this block reads. Its input's gradient is taken to be wanted, so that a block keeps the same
// whatever lies below it.
std::vector<bool> values_that_may_be_read(const Program& program, const std::vector<uint8_t>& trainable) {
    return values_backward_reads(program, trainable, values_with_gradient(program, trainable, true));
}

Cost cost_of(const Program& program, const OpSize& size, const std::vector<bool>& nodes) {
    Cost cost;
    for (size_t n = 0; n < nodes.size(); ++n) {
        const Node& node = program.nodes[n];
        if (nodes[n]) add_cost(cost, node.op->cost(node.spec, size, DiffMode::forward));
    }
    return cost;
}

}  // namespace

std::vector<bool> values_with_gradient(const Program& program, const std::vector<uint8_t>& trainable,
                                       bool want_grad_input) {
    std::vector<bool> wanted(program.values.size(), false);
    for (const int input : program.inputs) wanted[at(input)] = want_grad_input;
    for (const Node& node : program.nodes) {
        bool any = trains(node, trainable);
        for (const int in : node.in) any = any || wanted[at(in)];
        for (const int out : node.out) wanted[at(out)] = any;
    }
    return wanted;
}

bool backward_reads_in(const Node& node, const std::vector<uint8_t>& trainable) {
    const BackwardReads& reads = node.op->reads;
    return reads.in && (!reads.in_for_weights || trains(node, trainable));
}

std::vector<bool> values_backward_reads(const Program& program, const std::vector<uint8_t>& trainable,
                                        const std::vector<bool>& with_gradient) {
    std::vector<bool> read(program.values.size(), false);
    for (const Node& node : program.nodes) {
        if (node.op->passes_gradient || !with_gradient[at(node.out[0])]) continue;
        if (backward_reads_in(node, trainable))
            for (const int in : node.in) read[at(in)] = true;
        if (node.op->reads.out)
            for (const int out : node.out) read[at(out)] = true;
        for (const int saved : node.saved) read[at(saved)] = !gives_output_in_reverse(program, node);
    }
    return read;
}

std::vector<Region> regions_of_saved(const Program& program, const std::vector<uint8_t>& trainable,
                                     const std::vector<SaveChoice>& choices) {
    const std::vector<int> values = made_by_forward(program, values_that_may_be_read(program, trainable));
    WINDLASS_CHECK(values.size() == choices.size(), "{} choices for {} saved values", choices.size(), values.size());
    std::vector<Region> regions(program.values.size(), Region::none);
    for (size_t i = 0; i < values.size(); ++i) regions[at(values[i])] = region_of(choices[i]);
    return regions;
}

std::vector<Region> regions_of_saved(const Program& program, SaveChoice choice) {
    const std::vector<bool> all(program.values.size(), true);
    std::vector<Region> regions(program.values.size(), Region::none);
    for (const int value : made_by_forward(program, values_backward_reads(program, {}, all)))
        regions[at(value)] = region_of(choice);
    return regions;
}

// Backwards from what is read: a node runs if something that it makes is missing, and then what it reads is needed.
std::vector<bool> nodes_to_run_again(const Program& program, std::vector<bool> read,
                                     const std::vector<Region>& regions) {
    const auto missing = [&](int value) { return read[at(value)] && regions[at(value)] == Region::none; };
    std::vector<bool> run(program.nodes.size(), false);
    for (size_t n = program.nodes.size(); n-- > 0;) {
        const Node& node = program.nodes[n];
        if (gives_output_in_reverse(program, node)) continue;
        run[n] = std::any_of(node.out.begin(), node.out.end(), missing) ||
                 std::any_of(node.saved.begin(), node.saved.end(), missing);
        if (run[n])
            for (const int in : node.in) read[at(in)] = true;
    }
    return run;
}

std::vector<SavedValue> saved_values(const Program& program, const OpSize& size,
                                     const std::vector<uint8_t>& trainable) {
    const std::vector<bool> read = values_that_may_be_read(program, trainable);
    const std::vector<int> values = made_by_forward(program, read);
    std::vector<Region> regions =
        regions_of_saved(program, trainable, std::vector<SaveChoice>(values.size(), SaveChoice::keep));
    std::vector<SavedValue> saved;
    for (const int value : values) {
        regions[at(value)] = Region::none;
        const Cost cost = cost_of(program, size, nodes_to_run_again(program, read, regions));
        regions[at(value)] = Region::saved;
        saved.push_back({.name = program.values[at(value)].name,
                         .bytes = slot_bytes(program.values[at(value)].spec, size),
                         .recompute_flops = cost.flops,
                         .recompute_bytes = cost.bytes});
    }
    return saved;
}

}  // namespace windlass
