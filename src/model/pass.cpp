#include "model/pass.h"

#include <algorithm>

#include "base/index.h"
#include "model/segment_writer.h"

namespace windlass {
namespace {

bool contains(const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

std::vector<Region> regions_of(const Program& program, const PassOptions& options) {
    if (options.choices.empty())
        return regions_of_saved(program, options.save ? SaveChoice::keep : SaveChoice::recompute);
    return regions_of_saved(program, options.trainable, options.choices);
}

// Slots of forward's values: kept ones are in their regions, others in work memory. In backward the output is in work
// memory too, because the caller does not read it a second time.
std::vector<Slot> forward_slots(SegmentWriter& writer, const std::vector<Region>& regions, bool output_region) {
    const Program& program = writer.program();
    std::vector<Slot> slots;
    for (int value = 0; value < static_cast<int>(program.values.size()); ++value) {
        if (contains(program.inputs, value))
            slots.push_back(writer.fixed(Region::input, value));
        else if (output_region && contains(program.outputs, value))
            slots.push_back(writer.fixed(Region::output, value));
        else if (regions[at(value)] != Region::none)
            slots.push_back(writer.fixed(regions[at(value)], value));
        else
            slots.push_back(writer.work(value));
    }
    return slots;
}

std::vector<Slot> pick(const std::vector<Slot>& slots, const std::vector<int>& values) {
    std::vector<Slot> out;
    for (const int value : values) out.push_back(slots[at(value)]);
    return out;
}

// Values that a call does not read have no place in it: they need not live until then.
std::vector<Slot> pick_if(bool read, const std::vector<Slot>& slots, const std::vector<int>& values) {
    std::vector<Slot> out = pick(slots, values);
    if (read) return out;
    for (Slot& slot : out) slot = {.cols = slot.cols, .dtype = slot.dtype, .k = slot.k};
    return out;
}

SegmentCall forward_call(const Node& node, const std::vector<Slot>& slots) {
    return {.node = &node,
            .mode = DiffMode::forward,
            .in = pick(slots, node.in),
            .out = pick(slots, node.out),
            .saved = pick(slots, node.saved)};
}

// A forward call in reverse. A value that was kept stays as it is: where the call makes it once more, next to one that
// was not kept, it goes to work memory.
SegmentCall call_again(SegmentWriter& writer, const Node& node, const std::vector<Slot>& slots) {
    SegmentCall call = forward_call(node, slots);
    const auto divert = [&](std::vector<Slot>& made, const std::vector<int>& values) {
        for (size_t i = 0; i < made.size(); ++i) {
            if (made[i].region != Region::work) made[i] = writer.work(values[i]);
        }
    };
    divert(call.out, node.out);
    divert(call.saved, node.saved);
    return call;
}

// Gradients of values while the pass runs backward. An op that passes its gradient on shares the memory of its
// output's gradient with its inputs; adding to shared memory is safe once no other op still has to read it.
class Gradients {
  public:
    Gradients(SegmentWriter& writer, std::vector<bool> wanted)
        : writer_(writer), wanted_(std::move(wanted)), owner_(wanted_.size(), -1) {}

    bool wanted(int value) const { return wanted_[at(value)]; }
    bool exists(int value) const { return owner_[at(value)] >= 0; }
    Slot slot(int value) const { return exists(value) ? storage_[at(owner_[at(value)])] : writer_.absent(value); }

    void set(int value, Slot slot) {
        storage_.push_back(slot);
        owner_[at(value)] = static_cast<int>(storage_.size()) - 1;
    }
    // Returns whether the next writer must add rather than write.
    bool prepare(int value, bool is_program_input) {
        if (exists(value)) return true;
        set(value, is_program_input ? writer_.fixed(Region::grad_input, value) : writer_.work(value));
        return false;
    }
    void share(int from, int to) { owner_[at(to)] = owner_[at(from)]; }
    // The gradient of this value has been read by the node that made the value: its memory is not its own any more.
    void consumed(int value) { owner_[at(value)] = -1; }
    bool shared(int value) const { return std::count(owner_.begin(), owner_.end(), owner_[at(value)]) > 1; }

  private:
    SegmentWriter& writer_;
    std::vector<bool> wanted_;
    std::vector<int> owner_;  // value -> storage
    std::vector<Slot> storage_;
};

bool trains_first_weight(const Node& node, const std::vector<uint8_t>& trainable) {
    return !node.weights.empty() && (trainable.empty() || trainable[at(node.weights[0])] != 0);
}

void add_backward(SegmentWriter& writer, const Node& node, const std::vector<Slot>& slots,
                  const std::vector<uint8_t>& trainable, Gradients& gradients) {
    const Program& program = writer.program();
    SegmentCall call{.node = &node,
                     .mode = DiffMode::vjp,
                     .in = pick_if(backward_reads_in(node, trainable), slots, node.in),
                     .out = pick_if(node.op->reads.out, slots, node.out),
                     .saved = pick(slots, node.saved)};
    if (gives_output_in_reverse(program, node)) call.out[0] = writer.fixed(Region::output, node.out[0]);
    for (const int out : node.out) call.grad_out.push_back(gradients.slot(out));
    for (const int out : node.out) gradients.consumed(out);
    for (size_t i = 0; i < node.in.size(); ++i) {
        const int in = node.in[i];
        if (!gradients.wanted(in)) {
            call.grad_in.push_back(writer.absent(in));
            call.add_to_grad_in.push_back(0);
            continue;
        }
        const bool adds = gradients.prepare(in, contains(program.inputs, in));
        WINDLASS_CHECK(!adds || !gradients.shared(in), "the gradient of %{} is still to be read elsewhere",
                       program.values[at(in)].name);
        call.grad_in.push_back(gradients.slot(in));
        call.add_to_grad_in.push_back(adds ? 1 : 0);
    }
    writer.add(std::move(call), trains_first_weight(node, trainable));
}

// y = a + b: both inputs take over the gradient of y, unless one has its own already, or is the program's input while
// the gradient is in work memory, which the caller does not see.
bool pass_gradient(const Node& node, const Program& program, Gradients& gradients) {
    const bool inside = gradients.slot(node.out[0]).region == Region::work;
    for (const int in : node.in) {
        if (!gradients.wanted(in)) continue;
        if (gradients.exists(in) || (inside && contains(program.inputs, in))) return false;
    }
    for (const int in : node.in) {
        if (gradients.wanted(in)) gradients.share(node.out[0], in);
    }
    gradients.consumed(node.out[0]);
    return true;
}

}  // namespace

bool reverse_computes_output(const Program& program) {
    return std::any_of(program.nodes.begin(), program.nodes.end(),
                       [&](const Node& node) { return gives_output_in_reverse(program, node); });
}

Segment forward_pass(std::shared_ptr<const Program> program, const PassOptions& options) {
    const auto kept = [](SaveChoice choice) { return choice != SaveChoice::recompute; };
    const bool save = options.choices.empty() ? options.save : std::ranges::any_of(options.choices, kept);
    SegmentWriter writer(program, options.size, save ? "forward+save" : "forward");
    const std::vector<Slot> slots = forward_slots(writer, regions_of(*program, options), true);
    for (const Node& node : program->nodes) writer.add(forward_call(node, slots));
    return writer.finish();
}

Segment backward_pass(std::shared_ptr<const Program> program, const PassOptions& options) {
    const bool all_kept = options.choices.empty()
                              ? options.save
                              : std::ranges::find(options.choices, SaveChoice::recompute) == options.choices.end();
    SegmentWriter writer(program, options.size, all_kept ? "backward" : "backward+recompute");
    const std::vector<Region> regions = regions_of(*program, options);
    const std::vector<Slot> slots = forward_slots(writer, regions, false);
    const std::vector<bool> wanted = values_with_gradient(*program, options.trainable, options.want_grad_input);
    const std::vector<bool> again =
        nodes_to_run_again(*program, values_backward_reads(*program, options.trainable, wanted), regions);
    for (size_t n = 0; n < program->nodes.size(); ++n) {
        if (again[n]) writer.add(call_again(writer, program->nodes[n], slots));
    }
    Gradients gradients(writer, wanted);
    if (!reverse_computes_output(*program)) {
        for (const int out : program->outputs) gradients.set(out, writer.fixed(Region::grad_output, out));
    }
    for (size_t n = program->nodes.size(); n-- > 0;) {
        const Node& node = program->nodes[n];
        if (!gradients.wanted(node.out[0])) continue;
        if (node.op->passes_gradient && pass_gradient(node, *program, gradients)) continue;
        add_backward(writer, node, slots, options.trainable, gradients);
    }
    Segment segment = writer.finish();
    for (const int in : program->inputs) {
        if (!gradients.wanted(in)) continue;
        const Region region = gradients.slot(in).region;
        WINDLASS_CHECK(region == Region::grad_output || region == Region::grad_input, "the gradient of %{} is lost",
                       program->values[at(in)].name);
        segment.gradient_in_place = region == Region::grad_output;
    }
    return segment;
}

Segment tangent_pass(std::shared_ptr<const Program> program, const PassOptions& options) {
    SegmentWriter writer(program, options.size, "tangent");
    const int k = options.size.k;
    const std::vector<Slot> slots = forward_slots(writer, regions_of_saved(*program, SaveChoice::recompute), true);
    std::vector<Slot> tangents;
    for (int value = 0; value < static_cast<int>(program->values.size()); ++value) {
        if (contains(program->inputs, value))
            tangents.push_back(writer.fixed(Region::tangent_input, value, k));
        else if (contains(program->outputs, value))
            tangents.push_back(writer.fixed(Region::tangent_output, value, k));
        else
            tangents.push_back(writer.work(value, k));
    }
    for (const Node& node : program->nodes) {
        writer.add(forward_call(node, slots));
        writer.add({.node = &node,
                    .mode = DiffMode::jvp,
                    .in = pick(slots, node.in),
                    .out = pick(slots, node.out),
                    .saved = pick(slots, node.saved),
                    .tangent_in = pick(tangents, node.in),
                    .tangent_out = pick(tangents, node.out)});
    }
    return writer.finish();
}

}  // namespace windlass
