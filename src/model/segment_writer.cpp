#include "model/segment_writer.h"

#include <algorithm>

#include "base/math.h"

namespace windlass {
namespace {

std::array<std::vector<Slot>*, 7> slots_of(SegmentCall& call) {
    return {&call.in, &call.out, &call.saved, &call.grad_out, &call.grad_in, &call.tangent_in, &call.tangent_out};
}

bool run_together(const SegmentCall& a, const SegmentCall& b, const OpSize& size) {
    const OpRecord& op = *a.node->op;
    const auto same = [](const Slot& x, const Slot& y) { return x.region == y.region && x.offset == y.offset; };
    return op.joins != nullptr && b.node->op == &op && a.mode == DiffMode::forward && b.mode == DiffMode::forward &&
           op.joins(a.node->spec, size) && op.joins(b.node->spec, size) &&
           std::equal(a.in.begin(), a.in.end(), b.in.begin(), b.in.end(), same);
}

}  // namespace

int64_t slot_bytes(const ValueSpec& spec, const OpSize& size, int k) {
    return round_up(k * size.tokens() * spec.cols * dtype_bytes(dtype_of(spec.type, size.compute)), kSlotAlignment);
}

void add_cost(Cost& sum, const Cost& more) {
    sum.flops += more.flops;
    sum.model_flops += more.model_flops;
    sum.bytes += more.bytes;
}

SegmentWriter::SegmentWriter(std::shared_ptr<const Program> program, const OpSize& size, std::string name)
    : program_(*program) {
    segment_.name = std::move(name);
    segment_.size = size;
    segment_.program = std::move(program);
}

Slot SegmentWriter::absent(int value, int k) const {
    const ValueSpec& spec = program_.values[static_cast<size_t>(value)].spec;
    return {.cols = spec.cols, .dtype = dtype_of(spec.type, segment_.size.compute), .k = k};
}

Slot SegmentWriter::fixed(Region region, int value, int k) {
    Slot slot = absent(value, k);
    int64_t& end = segment_.bytes[static_cast<size_t>(region)];
    slot.region = region;
    slot.offset = end;
    end += slot_bytes(program_.values[static_cast<size_t>(value)].spec, segment_.size, k);
    return slot;
}

// The offset field of a work slot holds its piece until finish().
Slot SegmentWriter::work(int value, int k) {
    Slot slot = absent(value, k);
    slot.region = Region::work;
    slot.offset = new_piece(slot_bytes(program_.values[static_cast<size_t>(value)].spec, segment_.size, k));
    return slot;
}

void SegmentWriter::add(SegmentCall call, bool trains_weights) {
    const OpRecord& op = *call.node->op;
    OpSize size = segment_.size;
    size.trains_weights = trains_weights;
    call.cost = op.cost(call.node->spec, size, call.mode);
    call.scratch_bytes = op.scratch_bytes(call.node->spec, segment_.size, call.mode);
    call.scratch_offset = new_piece(call.scratch_bytes);
    touch_piece(call.scratch_offset);
    for (const auto* slots : slots_of(call)) {
        for (const Slot& slot : *slots) {
            if (slot.region == Region::work) touch_piece(slot.offset);
        }
    }
    add_cost(segment_.cost, call.cost);
    segment_.calls.push_back(std::move(call));
}

// Calls that run as one touch all that they touch at once: each has its places from the first one on.
void SegmentWriter::join_calls() {
    for (size_t begin = 0, end = 0; begin < segment_.calls.size(); begin = end) {
        for (end = begin + 1; end < segment_.calls.size(); ++end) {
            if (!run_together(segment_.calls[begin], segment_.calls[end], segment_.size)) break;
        }
        segment_.calls[begin].together = static_cast<int64_t>(end - begin);
        const auto first = static_cast<int64_t>(begin), last = static_cast<int64_t>(end) - 1;
        for (LivePiece& piece : pieces_) {
            if (piece.first > first && piece.first <= last) piece.first = first;
        }
    }
}

Segment SegmentWriter::finish() {
    join_calls();
    for (LivePiece& piece : pieces_) {
        if (piece.last < 0) piece = {};  // a value that this direction never touches
    }
    segment_.bytes[static_cast<size_t>(Region::work)] = place_pieces(pieces_, kSlotAlignment);
    for (SegmentCall& call : segment_.calls) {
        for (auto* slots : slots_of(call)) {
            for (Slot& slot : *slots) {
                if (slot.region == Region::work) slot.offset = pieces_[static_cast<size_t>(slot.offset)].offset;
            }
        }
        call.scratch_offset = pieces_[static_cast<size_t>(call.scratch_offset)].offset;
    }
    return std::move(segment_);
}

int64_t SegmentWriter::new_piece(int64_t bytes) {
    pieces_.push_back({.bytes = bytes, .first = INT64_MAX, .last = -1});
    return static_cast<int64_t>(pieces_.size()) - 1;
}

void SegmentWriter::touch_piece(int64_t piece) {
    LivePiece& live = pieces_[static_cast<size_t>(piece)];
    const auto position = static_cast<int64_t>(segment_.calls.size());
    live.first = std::min(live.first, position);
    live.last = std::max(live.last, position);
}

}  // namespace windlass
