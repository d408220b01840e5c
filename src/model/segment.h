// segment.h: one direction of one block for one micro-batch, as a flat list of kernel calls over memory slots.
//
// Made by pass.h from a Program. Every value has a place: an offset in one of a few regions whose base addresses
// are bound when the segment runs. So a segment is data: sized, checked and priced before anything is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device.h"
#include "model/program.h"

namespace windlass {

enum class Region : uint8_t {
    none,          // not kept, or not wanted
    input,         // the residual stream coming in              [T, C]
    output,        // what the block hands on: residual, loss    [T, C]
    grad_output,   // backward: gradient of the output; overwritten while the segment runs
    grad_input,    // backward: where the gradient of the input goes; see Segment::gradient_in_place
    saved,         // values that forward keeps for backward, which only reads them
    saved_second,  // and more of them, in regions that may wait elsewhere
    saved_third,
    work,  // everything else, by liveness
    tangent_input,
    tangent_output,
};
inline constexpr int kRegions = 11;

struct Slot {
    Region region = Region::none;
    int64_t offset = 0;  // bytes
    int64_t cols = 0;
    DType dtype = DType::f32;
    int k = 1;  // rows are k * T: tangents of k directions
};

struct SegmentCall {
    const Node* node = nullptr;
    DiffMode mode = DiffMode::forward;
    std::vector<Slot> in, out, saved;
    std::vector<Slot> grad_out, grad_in, tangent_in, tangent_out;
    std::vector<uint8_t> add_to_grad_in;
    int64_t scratch_offset = 0;  // in the work region
    int64_t scratch_bytes = 0;
    int64_t together = 1;  // calls from this one on that run as one (OpCells::together)
    Cost cost;
};

struct Segment {
    std::string name;  // "forward", "backward+recompute", ...
    OpSize size;
    // backward: the gradient of the input is left in the memory of grad_output (a residual stream); else it is
    // written to grad_input, which must then be other memory.
    bool gradient_in_place = false;
    std::vector<SegmentCall> calls;
    std::array<int64_t, kRegions> bytes{};  // what each region must hold
    Cost cost;
    std::shared_ptr<const Program> program;  // owns the nodes

    int64_t region_bytes(Region region) const { return bytes[static_cast<size_t>(region)]; }
    std::string to_string() const;
};

// Where the time of a compute lane goes: nanoseconds by op and direction.
class OpProfile {
  public:
    void add(std::string_view op, DiffMode mode, int64_t ns) { ns_[{op, mode}] += ns; }
    const std::map<std::pair<std::string_view, DiffMode>, int64_t>& ns() const { return ns_; }
    void clear() { ns_.clear(); }

  private:
    std::map<std::pair<std::string_view, DiffMode>, int64_t> ns_;
};

std::string_view diff_mode_name(DiffMode mode);

struct SegmentBinding {
    std::array<std::byte*, kRegions> base{};
    std::span<const Weight> weights;      // by the program's weights
    std::span<const GradientSink> sinks;  // backward: by the program's weights
    const Batch* batch = nullptr;
    const HeadParams* head = nullptr;
    int64_t sequence_length = 0;      // tokens a row, if fewer than the segment was made for; 0: as many as that
    Tensor cache_keys, cache_values;  // decoding
    OpProfile* profile = nullptr;
};

// Calls the kernels in order. The device has every cell: planning refuses a device that lacks one (plan/refusal.h).
void run_segment(const Segment& segment, const SegmentBinding& binding, Stream& stream);

}  // namespace windlass
