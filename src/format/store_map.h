// store_map.h: where everything in a store lies, as arithmetic on its layout. Grammar: docs/format/store.md.
//
// Pure: no file is touched. A layout that comes from a file is bounded before anything is allocated for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/math.h"

namespace windlass {

struct StoreParam {
    static constexpr int64_t kAllSections = -1;
    std::string name;  // UTF-8
    int64_t numel = 0;
    int64_t sections = kAllSections;  // how many of the layout's sections its chunks have, from the first
    int weight_bytes = 0;             // of an element, or of a group of them; 0: the layout's, of an element
    int weight_group = 1;             // elements of a group, the last one rounded up; chunks are whole groups
    bool once = false;                // written by the first commit alone: a working store has one version of it
    int64_t own_bytes = 0;            // of state that it has as a whole: after the sections of its first chunk
};

// A part of a chunk's state: `bytes` for every `per` elements, the last group rounded up.
struct StoreSection {
    std::string name;
    int64_t bytes = 0;
    int64_t per = 1;
};

// Bytes of a section of `elements`: the next one begins at a cache line.
inline int64_t section_bytes(int64_t bytes, int64_t per, int64_t elements) {
    constexpr int64_t kAlignment = 64;
    return round_up(div_up(elements, per) * bytes, kAlignment);
}

struct StoreLayout {
    std::vector<StoreParam> params;             // in block order: this is their order in the file
    int64_t chunk_elements = int64_t{1} << 22;  // a multiple of 256
    int versions = 2;                           // 2: a working store; 1: a snapshot
    int weight_bytes = 2;                       // of an element, where a parameter has none of its own
    std::vector<StoreSection> sections;         // of the state; may be empty
    int64_t run_state_bytes_max = int64_t{16} << 20;
    std::string meta;  // the caller's text, handed back as it was

    // Of `count` elements of this parameter; the first one begins a chunk.
    int64_t weight_bytes_of(const StoreParam& param, int64_t count) const {
        return (count + param.weight_group - 1) / param.weight_group *
               (param.weight_bytes == 0 ? weight_bytes : param.weight_bytes);
    }
};

// A range of a file. The offset is a multiple of 4096, and so is the room kept for it: a direct transfer rounds
// `bytes` up.
struct Extent {
    int64_t offset = 0;
    int64_t bytes = 0;
};

struct ChunkRef {
    int64_t param = 0;  // index in the layout
    int64_t first = 0;  // element of the parameter
    int64_t count = 0;  // elements
};

class StoreMap {
  public:
    static constexpr int64_t kAlignment = 4096;
    static constexpr int64_t kHeaderBytes = 4096;
    static constexpr int64_t kLayoutBytesMax = int64_t{16} << 20;

    // UserError(storage, where) names what is out of bounds or does not fit 63 bits.
    StoreMap(StoreLayout layout, std::string_view where);
    // The layout as the file holds it; a map that is read from this text is the same map.
    static StoreMap from_text(std::string_view text, std::string_view where);
    std::string to_text() const { return text_; }

    const StoreLayout& layout() const { return layout_; }
    int64_t chunk_count() const { return chunk_count_; }
    int64_t first_chunk(int64_t param) const { return starts_[static_cast<size_t>(param)].chunk; }
    ChunkRef chunk(int64_t index) const;
    Extent weight_extent(int64_t chunk, int version) const;
    Extent state_extent(int64_t chunk,
                        int version) const;  // the sections that the chunk has, back to back, and own_bytes
    int64_t section_offset(int64_t chunk, int64_t section) const;  // from the start of the state extent
    bool is_written_once(int64_t chunk) const;
    Extent slot(int64_t index) const { return {slots_offset_ + index * slot_bytes_, slot_bytes_}; }
    int64_t file_bytes() const { return file_bytes_; }

  private:
    // Weights of some parameters, followed by their state. In bytes: of all parameters, or of the ones before one.
    struct Region {
        int64_t weights = 0, states = 0;
    };
    // The size of what precedes a parameter: chunks, bytes that are written once, and bytes of one version of the rest.
    struct Start {
        int64_t chunk = 0;
        Region once, version;
        Region& region(const StoreParam& param) { return param.once ? once : version; }
        const Region& region(const StoreParam& param) const { return param.once ? once : version; }
    };
    StoreMap(StoreLayout layout, std::string text, std::string_view where);
    int64_t section_count(const StoreParam& param) const;
    int64_t weight_room(const StoreParam& param, int64_t elements) const;
    int64_t state_bytes(const StoreParam& param, int64_t elements) const;
    // Room for the state of `chunks` chunks, from the first one on.
    int64_t states_before(const StoreParam& param, int64_t chunks) const;
    // Where the region begins that holds this version of a parameter.
    int64_t region_offset(const StoreParam& param, int version) const;

    StoreLayout layout_;
    std::string text_;
    std::vector<Start> starts_;  // one per parameter and one past the last
    int64_t chunk_count_ = 0;
    int64_t slots_offset_ = 0, slot_bytes_ = 0;
    int64_t once_offset_ = 0, versions_offset_ = 0, version_bytes_ = 0;
    int64_t file_bytes_ = 0;
};

}  // namespace windlass
