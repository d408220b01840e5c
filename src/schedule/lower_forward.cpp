#include "schedule/builder.h"

#include "base/index.h"

namespace windlass {
namespace {

// Sends every micro-batch through blocks 0 .. count-1 and then `last`, fetching weights `read_ahead` blocks early.
class ForwardLowering {
  public:
    ForwardLowering(ScheduleBuilder& builder, int last_block) : builder_(builder), last_block_(last_block) {
        const int middle = static_cast<int>(builder.in().model.blocks.size()) - 1;  // all but the head
        for (int index = 0; index < middle; ++index) blocks_.push_back(index);
        blocks_.push_back(last_block);
    }

    void write() {
        const size_t micro_batches = static_cast<size_t>(builder_.schedule().micro_batches);
        stream_.assign(micro_batches, {});
        builder_.schedule().outputs.assign(micro_batches, {});
        for (size_t index = 0; index < blocks_.size(); ++index) {
            while (fetched_.size() <
                   std::min(blocks_.size(), index + 1 + static_cast<size_t>(builder_.in().plan.read_ahead)))
                fetched_.push_back(builder_.read_weights(builder_.block(blocks_[fetched_.size()])));
            builder_.upload(builder_.block(blocks_[index]), fetched_[index]);
            builder_.convert(blocks_[index], fetched_[index]);
            // As early as the weights of the same block: attention would wait for it otherwise.
            while (decodes() && caches_.size() < fetched_.size())
                caches_.push_back(bring_cache(blocks_[caches_.size()]));
            for (int micro = 0; micro < builder_.schedule().micro_batches; ++micro) pass(index, micro);
            if (decodes()) return_cache(blocks_[index], caches_[index]);
        }
    }

  private:
    void pass(size_t index, int micro) {
        const int block = blocks_[index];
        const BlockWeights& weights = fetched_[index];
        const bool is_last = block == last_block_;
        if (is_last && builder_.schedule().gives_logits) return pass_last_tokens(weights, micro);
        // It keeps nothing, since no backward follows: a block's input ends with the block.
        const int id = builder_.forward_segment(builder_.block(block));
        const Segment& segment = builder_.segment_at(id);
        RunTask task{.segment = id, .block = block, .micro = micro};
        std::vector<BufferUse> uses;
        uses.reserve(4 + weights.uses.size());
        BufferSlice& stream = stream_[static_cast<size_t>(micro)];
        if (segment.region_bytes(Region::input) > 0) {
            task.regions[at(Region::input)] = stream;
            uses.push_back({stream.buffer, false});
        }
        const BufferId out =
            builder_.buffer({"out", block, micro}, is_last ? MemoryTag::staging : MemoryTag::block_inputs,
                            segment.region_bytes(Region::output), TierKind::device);
        task.regions[at(Region::output)] = {out, 0};
        uses.push_back({out, true});
        stream = {out, 0};
        if (is_last) builder_.schedule().outputs[static_cast<size_t>(micro)] = stream;
        if (decodes()) add_cache(block, caches_[index], task, uses);
        builder_.run(std::move(task), weights, std::move(uses));
    }

    // The logits of other tokens are not used.
    void pass_last_tokens(const BlockWeights& weights, int micro) {
        const Block& block = builder_.block(last_block_);
        const int id = builder_.segment(block, {.one_token = true});
        const int64_t rows = builder_.schedule().size.rows,
                      bytes = builder_.segment_at(id).region_bytes(Region::output);
        const BufferSlice stream = stream_[static_cast<size_t>(micro)];
        const BufferId out = builder_.buffer({"out", builder_.index_of(block), micro}, MemoryTag::staging, rows * bytes,
                                             TierKind::device);
        // A task for each row: the last tokens of rows lie apart, and a segment has one input.
        for (int row = 0; row < rows; ++row) {
            RunTask task{.segment = id, .block = last_block_, .micro = micro, .last_token_of = row};
            task.regions[at(Region::input)] = stream;
            task.regions[at(Region::output)] = {out, row * bytes};
            builder_.run(std::move(task), weights,
                         {{stream.buffer, false}, {out, true, row * bytes, (row + 1) * bytes}});
        }
        builder_.schedule().outputs[static_cast<size_t>(micro)] = {out, 0};
    }

    bool decodes() const { return builder_.schedule().gives_logits; }
    const CachePlace& cache_place(int block) const {
        static constexpr CachePlace kNone;
        const std::vector<CachePlace>& caches = builder_.in().ids.caches;
        return static_cast<size_t>(block) < caches.size() ? caches[at(block)] : kNone;
    }
    void add_cache(int block, const BufferSlice& cache, RunTask& task, std::vector<BufferUse>& uses) const {
        const int64_t bytes = cache_place(block).bytes;
        if (bytes == 0) return;
        task.cache_keys = cache;
        task.cache_values = {cache.buffer, cache.offset + bytes / 2};
        // As a write: attention adds the keys and values of the new tokens to what it reads.
        uses.push_back({cache.buffer, true, cache.offset, cache.offset + bytes});
    }

    // Which tokens a call adds is not known when it is planned: all of a block's keys and values come, and go back.
    BufferSlice bring_cache(int block) {
        const CachePlace& place = cache_place(block);
        if (stays(block)) return place.memory;
        const BufferId here = builder_.buffer({"cache", block}, MemoryTag::cache, place.bytes, TierKind::device);
        const BufferSlice host = on_host(place, here);
        if (place.file_offset >= 0) move_file(MoveKind::disk_read, host.buffer, place);
        if (host.buffer != here) copy(MoveKind::up, host, {here, 0}, place.bytes);
        return {here, 0};
    }
    void return_cache(int block, const BufferSlice& here) {
        const CachePlace& place = cache_place(block);
        if (stays(block)) return;
        const BufferSlice host = on_host(place, here.buffer);
        if (host.buffer != here.buffer) copy(MoveKind::down, here, host, place.bytes);
        if (place.file_offset >= 0) move_file(MoveKind::disk_write, host.buffer, place);
    }
    bool stays(int block) const {
        if (cache_place(block).bytes == 0) return true;  // the block of logits is none of the plan's
        const Plan& plan = builder_.in().plan;
        const Home home = plan.of(block).cache;
        return home == Home::device || (home == Home::host && !plan.own_memory());
    }
    // Where it is before it goes up and after it came down; the device's own buffer where that is in the host's memory.
    BufferSlice on_host(const CachePlace& place, BufferId here) {
        if (place.file_offset < 0) return place.memory;
        if (!builder_.in().plan.own_memory()) return {here, 0};
        return {builder_.buffer("cache, host", MemoryTag::cache, place.bytes, TierKind::host), 0};
    }
    void copy(MoveKind kind, const BufferSlice& from, const BufferSlice& to, int64_t bytes) {
        builder_.move({.kind = kind,
                       .place = DiskPlace::activation,
                       .buffer = to.buffer,
                       .source = from.buffer,
                       .pieces = {{.offset = to.offset, .source = from.offset, .bytes = bytes}}});
    }
    void move_file(MoveKind kind, BufferId buffer, const CachePlace& place) {
        builder_.move({.kind = kind,
                       .place = DiskPlace::activation,
                       .buffer = buffer,
                       .pieces = {{.first = place.file_offset, .bytes = place.bytes}}});
    }

    ScheduleBuilder& builder_;
    int last_block_;
    std::vector<int> blocks_;
    std::vector<BlockWeights> fetched_;
    std::vector<BufferSlice> caches_;  // decoding: on the device, by place in blocks_
    std::vector<BufferSlice> stream_;  // by micro-batch: the residual stream
};

}  // namespace

Schedule lower_eval(const LowerInput& input, const ScheduleRequest& request) {
    ScheduleBuilder builder(input, request);
    ForwardLowering(builder, static_cast<int>(input.model.blocks.size()) - 1).write();
    return builder.finish();
}

Schedule lower_decode(const LowerInput& input, const ScheduleRequest& request) {
    ScheduleBuilder builder(input, request);
    builder.schedule().gives_logits = true;
    // Caches at home on disk are in the file that activations spill to.
    builder.schedule().activation_file_bytes = input.ids.cache_file_bytes;
    ForwardLowering(builder, static_cast<int>(input.model.blocks.size())).write();
    return builder.finish();
}

}  // namespace windlass
