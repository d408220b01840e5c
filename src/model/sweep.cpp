#include "model/sweep.h"

#include <algorithm>

#include "base/math.h"
#include "model/liveness.h"

namespace windlass {
namespace {

constexpr int64_t kSlotAlignment = 64;  // a cache line, and the width of an AVX-512 register

size_t at(int index) {
    return static_cast<size_t>(index);
}

// Collects calls and, at the end, turns lifetimes into offsets of the work region.
class SegmentWriter {
  public:
    SegmentWriter(std::shared_ptr<const Program> program, const SweepOptions& options, std::string name)
        : program_(*program), options_(options) {
        segment_.name = std::move(name);
        segment_.size = options.size;
        segment_.program = std::move(program);
    }

    const Program& program() const { return program_; }
    int64_t position() const { return static_cast<int64_t>(segment_.calls.size()); }

    // A slot for one value's worth of rows; work slots get their offset in finish().
    Slot fixed(Region region, int value, int k = 1) {
        Slot slot = shape_of(value, k);
        int64_t& end = segment_.bytes[static_cast<size_t>(region)];
        slot.region = region;
        slot.offset = end;
        end += slot_bytes(slot);
        return slot;
    }
    // The offset field of a work slot holds its piece until finish().
    Slot work(int value, int k = 1) {
        Slot slot = shape_of(value, k);
        slot.region = Region::work;
        slot.offset = new_piece(slot_bytes(slot));
        return slot;
    }
    Slot absent(int value, int k = 1) { return shape_of(value, k); }

    void add(SegmentCall call) {
        const OpRecord& op = *call.node->op;
        call.cost = op.cost(call.node->spec, segment_.size, call.direction);
        if (op.scratch_bytes != nullptr)
            call.scratch_bytes = op.scratch_bytes(call.node->spec, segment_.size, call.direction);
        call.scratch_offset = new_piece(call.scratch_bytes);
        touch_piece(call.scratch_offset);
        for (const auto* slots :
             {&call.in, &call.out, &call.saved, &call.grad_out, &call.grad_in, &call.tangent_in, &call.tangent_out}) {
            for (const Slot& slot : *slots) {
                if (slot.region == Region::work) touch_piece(slot.offset);
            }
        }
        segment_.cost.flops += call.cost.flops;
        segment_.cost.model_flops += call.cost.model_flops;
        segment_.cost.bytes += call.cost.bytes;
        segment_.calls.push_back(std::move(call));
    }

    Segment finish() {
        for (LivePiece& piece : pieces_) {
            if (piece.last < 0) piece = {};  // a value that this direction never touches
        }
        segment_.bytes[static_cast<size_t>(Region::work)] = place_pieces(pieces_, kSlotAlignment);
        const auto settle = [&](std::vector<Slot>& slots) {
            for (Slot& slot : slots) {
                if (slot.region == Region::work) slot.offset = pieces_[static_cast<size_t>(slot.offset)].offset;
            }
        };
        for (SegmentCall& call : segment_.calls) {
            for (auto* slots : {&call.in, &call.out, &call.saved, &call.grad_out, &call.grad_in, &call.tangent_in,
                                &call.tangent_out}) {
                settle(*slots);
            }
            call.scratch_offset = pieces_[static_cast<size_t>(call.scratch_offset)].offset;
        }
        return std::move(segment_);
    }

  private:
    Slot shape_of(int value, int k) const {
        const ValueSpec& spec = program_.values[at(value)].spec;
        return {.cols = spec.cols, .dtype = dtype_of(spec.type, options_.size.compute), .k = k};
    }
    int64_t slot_bytes(const Slot& slot) const {
        return round_up(slot.k * segment_.size.tokens() * slot.cols * dtype_bytes(slot.dtype), kSlotAlignment);
    }
    int64_t new_piece(int64_t bytes) {
        pieces_.push_back({.bytes = bytes, .first = INT64_MAX, .last = -1});
        return static_cast<int64_t>(pieces_.size()) - 1;
    }
    void touch_piece(int64_t piece) {
        LivePiece& live = pieces_[static_cast<size_t>(piece)];
        live.first = std::min(live.first, position());
        live.last = std::max(live.last, position());
    }

    const Program& program_;
    const SweepOptions& options_;
    Segment segment_;
    std::vector<LivePiece> pieces_;
};

bool trains(const Node& node, const SweepOptions& options) {
    return std::any_of(node.weights.begin(), node.weights.end(),
                       [&](int weight) { return options.trainable.empty() || options.trainable[at(weight)] != 0; });
}

// Which values have a gradient that somebody wants.
std::vector<bool> values_with_gradient(const Program& program, const SweepOptions& options) {
    std::vector<bool> wanted(program.values.size(), false);
    for (const int input : program.inputs) wanted[at(input)] = options.want_grad_input;
    for (const Node& node : program.nodes) {
        bool any = trains(node, options);
        for (const int in : node.in) any = any || wanted[at(in)];
        for (const int out : node.out) wanted[at(out)] = any;
    }
    return wanted;
}

// The values of forward that backward reads: those that forward keeps, or that recompute makes again. Which values
// they are may not depend on what is trainable: forward and reverse must agree on the layout of `saved`.
std::vector<bool> values_backward_reads(const Program& program) {
    std::vector<bool> read(program.values.size(), false);
    for (const Node& node : program.nodes) {
        const BackwardReads& reads = node.op->reads;
        if (node.op->passes_gradient) continue;
        if (reads.in)
            for (const int in : node.in) read[at(in)] = true;
        if (reads.out)
            for (const int out : node.out) read[at(out)] = true;
        for (const int saved : node.saved) read[at(saved)] = !node.op->backward_computes_out;
    }
    return read;
}

// Nodes that must run forward so that the values in `read` exist; a loss that backward computes need not.
std::vector<bool> nodes_to_run_again(const Program& program, std::vector<bool> read) {
    std::vector<bool> run(program.nodes.size(), false);
    for (size_t n = program.nodes.size(); n-- > 0;) {
        const Node& node = program.nodes[n];
        if (node.op->backward_computes_out) continue;
        const auto needed = [&](int value) { return read[at(value)]; };
        run[n] = std::any_of(node.out.begin(), node.out.end(), needed) ||
                 std::any_of(node.saved.begin(), node.saved.end(), needed);
        if (run[n])
            for (const int in : node.in) read[at(in)] = true;
    }
    return run;
}

bool contains(const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

// Slots of forward's values. `kept` values go to the saved region where there is one.
std::vector<Slot> forward_slots(SegmentWriter& writer, const std::vector<bool>& kept, bool saved_region,
                                bool output_region) {
    const Program& program = writer.program();
    std::vector<Slot> slots;
    for (int value = 0; value < static_cast<int>(program.values.size()); ++value) {
        const bool is_output = contains(program.outputs, value);
        WINDLASS_CHECK(!(is_output && kept[at(value)]), "a block's output may not be read by its own backward");
        if (contains(program.inputs, value))
            slots.push_back(writer.fixed(Region::input, value));
        else if (is_output)
            slots.push_back(output_region ? writer.fixed(Region::output, value) : writer.absent(value));
        else if (kept[at(value)] && saved_region)
            slots.push_back(writer.fixed(Region::saved, value));
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
            .direction = Direction::forward,
            .in = pick(slots, node.in),
            .out = pick(slots, node.out),
            .saved = pick(slots, node.saved)};
}

// Gradients of values while the sweep runs backward. An op that passes its gradient on shares the memory of its
// output's gradient with its inputs; adding to shared memory is safe once nobody else still has to read it.
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

void add_backward(SegmentWriter& writer, const Node& node, const std::vector<Slot>& slots, Gradients& gradients) {
    const Program& program = writer.program();
    SegmentCall call{.node = &node,
                     .direction = Direction::backward,
                     .in = pick_if(node.op->reads.in, slots, node.in),
                     .out = pick_if(node.op->reads.out, slots, node.out),
                     .saved = pick(slots, node.saved)};
    if (node.op->backward_computes_out) call.out[0] = writer.fixed(Region::output, node.out[0]);
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
    writer.add(std::move(call));
}

// y = a + b: both inputs take over the gradient of y, unless one has its own already, or is the program's input while
// the gradient lies in work memory, which nobody outside sees.
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
                       [](const Node& node) { return node.op->backward_computes_out; });
}

Segment sweep_forward(std::shared_ptr<const Program> program, const SweepOptions& options) {
    SegmentWriter writer(program, options, options.save ? "forward+save" : "forward");
    const std::vector<Slot> slots = forward_slots(writer, values_backward_reads(*program), options.save, true);
    for (const Node& node : program->nodes) {
        SegmentCall call = forward_call(node, slots);
        writer.add(std::move(call));
    }
    return writer.finish();
}

Segment sweep_reverse(std::shared_ptr<const Program> program, const SweepOptions& options) {
    SegmentWriter writer(program, options, options.save ? "reverse" : "reverse+recompute");
    const std::vector<bool> read = values_backward_reads(*program);
    const std::vector<Slot> slots = forward_slots(writer, read, options.save, false);
    if (!options.save) {
        const std::vector<bool> again = nodes_to_run_again(*program, read);
        for (size_t n = 0; n < program->nodes.size(); ++n) {
            if (again[n]) writer.add(forward_call(program->nodes[n], slots));
        }
    }
    Gradients gradients(writer, values_with_gradient(*program, options));
    if (!reverse_computes_output(*program)) {
        for (const int out : program->outputs) gradients.set(out, writer.fixed(Region::grad_output, out));
    }
    for (size_t n = program->nodes.size(); n-- > 0;) {
        const Node& node = program->nodes[n];
        if (!gradients.wanted(node.out[0])) continue;
        if (node.op->passes_gradient && pass_gradient(node, *program, gradients)) continue;
        add_backward(writer, node, slots, gradients);
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

Segment sweep_tangent(std::shared_ptr<const Program> program, const SweepOptions& options) {
    SegmentWriter writer(program, options, "tangent");
    const int k = options.size.k;
    const std::vector<Slot> slots =
        forward_slots(writer, std::vector<bool>(program->values.size(), false), false, true);
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
                    .direction = Direction::tangent,
                    .in = pick(slots, node.in),
                    .out = pick(slots, node.out),
                    .saved = pick(slots, node.saved),
                    .tangent_in = pick(tangents, node.in),
                    .tangent_out = pick(tangents, node.out)});
    }
    return writer.finish();
}

}  // namespace windlass
