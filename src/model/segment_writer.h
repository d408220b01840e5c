// segment_writer.h: writes one Segment down, call by call, and gives every value its place.
//
// Places in regions that outlive the segment are handed out in order of asking, so that two segments that ask alike
// agree on them. The work region is laid out at the end, by liveness.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/liveness.h"
#include "model/segment.h"

namespace windlass {

inline constexpr int64_t kSlotAlignment = 64;  // a cache line, and the width of an AVX-512 register

// What a value of the program takes in a region, a multiple of kSlotAlignment.
int64_t slot_bytes(const ValueSpec& spec, const OpSize& size, int k = 1);

void add_cost(Cost& sum, const Cost& more);

class SegmentWriter {
  public:
    SegmentWriter(std::shared_ptr<const Program> program, const OpSize& size, std::string name);

    const Program& program() const { return program_; }

    // The next place in a region; k > 1: of tangents in k directions.
    Slot fixed(Region region, int value, int k = 1);
    // A place in work memory, from the first call that has it to the last.
    Slot work(int value, int k = 1);
    // No place, but the shape.
    Slot absent(int value, int k = 1) const;

    // trains_weights: of a backward call, whether the gradient of its first weight is needed.
    void add(SegmentCall call, bool trains_weights = true);
    Segment finish();

  private:
    int64_t new_piece(int64_t bytes);
    void touch_piece(int64_t piece);
    void join_calls();

    const Program& program_;
    Segment segment_;
    std::vector<LivePiece> pieces_;
};

}  // namespace windlass
