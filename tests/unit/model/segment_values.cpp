#include "tests/unit/model/segment_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace windlass {
namespace {

// What lies in the work region, by bytes. A write covers what was there before.
class WorkMemory {
  public:
    void write(const Slot& slot, int64_t tokens, const std::string& what) {
        write(slot.offset, bytes_of(slot, tokens), what);
    }
    void write(int64_t begin, int64_t bytes, const std::string& what) {
        std::erase_if(held_, [&](const auto& entry) {
            return entry.first < begin + bytes && begin < entry.first + entry.second.bytes;
        });
        if (bytes > 0) held_[begin] = {bytes, what};
    }
    bool holds(const Slot& slot, int64_t tokens, const std::string& what) const {
        const auto found = held_.find(slot.offset);
        return found != held_.end() && found->second.what == what && found->second.bytes == bytes_of(slot, tokens);
    }
    static int64_t bytes_of(const Slot& slot, int64_t tokens) {
        return slot.k * tokens * slot.cols * dtype_bytes(slot.dtype);
    }

  private:
    struct Held {
        int64_t bytes;
        std::string what;
    };
    std::map<int64_t, Held> held_;  // by offset
};

}  // namespace

bool is_saved_region(Region region) {
    return std::ranges::find(kSavedRegions, region) != std::end(kSavedRegions);
}

std::map<int, Place> saved_places(const Segment& segment) {
    std::map<int, Place> places;
    const auto note = [&](const std::vector<int>& values, const std::vector<Slot>& slots) {
        for (size_t i = 0; i < values.size(); ++i) {
            if (!is_saved_region(slots[i].region)) continue;
            const Place place{slots[i].region, slots[i].offset};
            const auto [noted, is_new] = places.try_emplace(values[i], place);
            EXPECT_TRUE(is_new || noted->second == place);
        }
    };
    for (const SegmentCall& call : segment.calls) {
        note(call.node->in, call.in);
        note(call.node->out, call.out);
        note(call.node->saved, call.saved);
    }
    return places;
}

std::vector<const SegmentCall*> calls_of(const Segment& segment, DiffMode mode) {
    std::vector<const SegmentCall*> calls;
    for (const SegmentCall& call : segment.calls) {
        if (call.mode == mode) calls.push_back(&call);
    }
    return calls;
}

// Runs the segment on names: a write covers what was there before.
void expect_values_live_until_read(const Segment& segment) {
    const Program& program = *segment.program;
    const int64_t tokens = segment.size.tokens();
    WorkMemory memory;
    const auto name = [&](int value) { return program.values[static_cast<size_t>(value)].name; };
    const auto read = [&](const SegmentCall& call, const std::vector<int>& values, const std::vector<Slot>& slots) {
        for (size_t i = 0; i < values.size(); ++i) {
            if (slots[i].region != Region::work) continue;
            EXPECT_TRUE(memory.holds(slots[i], tokens, name(values[i])))
                << call.node->op->name << " reads %" << name(values[i]);
        }
    };
    const auto write = [&](const std::vector<int>& values, const std::vector<Slot>& slots) {
        for (size_t i = 0; i < values.size(); ++i)
            if (slots[i].region == Region::work) memory.write(slots[i], tokens, name(values[i]));
    };
    for (const SegmentCall& call : segment.calls) {
        const bool forward = call.mode == DiffMode::forward;
        read(call, call.node->in, call.in);
        if (!forward && !call.node->op->backward_computes_out) {
            read(call, call.node->out, call.out);
            read(call, call.node->saved, call.saved);
        }
        memory.write(call.scratch_offset, call.scratch_bytes, "scratch");
        if (forward) {
            write(call.node->out, call.out);
            write(call.node->saved, call.saved);
        }
        for (const Slot& slot : call.grad_in)
            if (slot.region == Region::work) memory.write(slot, tokens, "gradient");
        read(call, call.node->in, call.in);  // nor does a call destroy what it reads
    }
}

}  // namespace windlass
