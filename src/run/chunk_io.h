// chunk_io.h: one chunk of one parameter at a time, between where the plan keeps it and the staging buffer.
//
// Loading, checkpoints, resume and export use it, while no schedule runs. In staging a chunk is [floats | weights |
// state], with the state laid out as in the store: low halves, then the recipe's sections.
#pragma once

#include <functional>
#include <span>

#include "run/arenas.h"
#include "run/engine.h"
#include "run/working_store.h"

namespace windlass {

class ChunkIo {
  public:
    // `store` is null where the plan keeps everything in memory.
    ChunkIo(const EngineSetup& setup, const Arenas& arenas, WorkingStore* store);

    // All chunks of these parameters, in order.
    void for_each(std::span<const int> params, const std::function<void(const ChunkSpan&)>& body) const;
    bool keeps_in_memory() const;

    // fp32 view in staging, for the chunk's elements.
    std::span<float> floats(const ChunkSpan& chunk);
    // The weights of the chunk in staging.
    std::byte* weights() const { return staging_.data() + weights_at_; }
    // Masters to their stored form in staging: weights and, if masters are split, low halves; and back. A team shares
    // the work.
    void split(const ChunkSpan& chunk, std::span<const float> masters, Team* team = nullptr);
    void join(const ChunkSpan& chunk, int64_t first, std::span<float> masters) const;
    void clear_state(const ChunkSpan& chunk);

    // Staging to those parts of the chunk that the plan keeps in memory.
    void store_in_memory(const ChunkSpan& chunk);
    // The current chunk into staging, from memory or from the store (verified).
    void fetch(const ChunkSpan& chunk);
    // The same from any store, which has it as its chunk `index`.
    void fetch_from(Store& source, int64_t index, const ChunkSpan& chunk);
    // Calls part(chunk, first element in it, numbers) for each part of [first, first + out.size()) of a parameter, with
    // its chunk in staging, which is fetched only where the call before ended in another one. For a ChunkIo that does
    // nothing else.
    using ReadPart = std::function<void(const ChunkSpan&, int64_t first, std::span<float> numbers)>;
    void read(int param, int64_t first, std::span<float> out, const ReadPart& part);
    // Staging into version 0 of a new store.
    ChunkSums write_to(Store& target, int64_t index);

  private:
    Param param_of(const ChunkSpan& chunk) const { return setup_.model.param(chunk.param); }
    std::byte* state() const { return staging_.data() + state_at_; }
    // For every part of a chunk that the plan keeps in memory: in which buffer, from which byte on, and where staging
    // has it.
    using PartVisitor = std::function<void(const BufferSpec&, int64_t begin, std::span<std::byte> staged)>;
    void with_memory(const ChunkSpan& chunk, const PartVisitor& visit) const;
    void with_resident(const ChunkSpan& chunk, const PartVisitor& visit) const;

    const EngineSetup& setup_;
    const Arenas& arenas_;
    WorkingStore* store_;
    Lease staging_;
    int64_t weights_at_ = 0, state_at_ = 0;
    int read_param_ = -1;  // whose chunk, and which, `read` has in staging
    int64_t read_first_ = 0;
};

}  // namespace windlass
