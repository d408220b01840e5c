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
        const size_t micro_count = static_cast<size_t>(builder_.schedule().micro_count);
        stream_.assign(micro_count, {});
        builder_.schedule().outputs.assign(micro_count, {});
        for (size_t index = 0; index < blocks_.size(); ++index) {
            while (fetched_.size() <
                   std::min(blocks_.size(), index + 1 + static_cast<size_t>(builder_.in().plan.read_ahead)))
                fetched_.push_back(builder_.read_weights(builder_.block(blocks_[fetched_.size()])));
            builder_.upload(builder_.block(blocks_[index]), fetched_[index]);
            builder_.convert(blocks_[index], fetched_[index]);
            for (int micro = 0; micro < builder_.schedule().micro_count; ++micro)
                pass(blocks_[index], fetched_[index], micro);
        }
    }

  private:
    void pass(int block, const BlockWeights& weights, int micro) {
        const bool is_last = block == last_block_;
        if (is_last && builder_.schedule().gives_logits) return pass_last_tokens(weights, micro);
        const int id = builder_.forward_segment(builder_.block(block));
        const Segment& segment = builder_.segment_at(id);
        RunTask task{.segment = id, .block = block, .micro = micro};
        std::vector<BufferUse> uses;
        BufferSlice& stream = stream_[static_cast<size_t>(micro)];
        if (segment.region_bytes(Region::input) > 0) {
            task.regions[at(Region::input)] = stream;
            uses.push_back({stream.buffer, false});
        }
        const BufferId out = builder_.buffer(fmt::format("{}.{}.out", builder_.block(block).name, micro),
                                             is_last ? Owner::staging : Owner::boundaries,
                                             segment.region_bytes(Region::output), TierKind::device);
        task.regions[at(Region::output)] = {out, 0};
        uses.push_back({out, true});
        stream = {out, 0};
        if (is_last) builder_.schedule().outputs[static_cast<size_t>(micro)] = stream;
        add_cache(block, task, uses);
        builder_.run(std::move(task), weights, std::move(uses));
    }

    // Nobody asks for the logits of other tokens.
    void pass_last_tokens(const BlockWeights& weights, int micro) {
        const Block& block = builder_.block(last_block_);
        const int id = builder_.segment(block, {.one_token = true});
        const int64_t rows = builder_.schedule().size.rows,
                      bytes = builder_.segment_at(id).region_bytes(Region::output);
        const BufferSlice stream = stream_[static_cast<size_t>(micro)];
        const BufferId out = builder_.buffer(fmt::format("{}.{}.out", block.name, micro), Owner::staging, rows * bytes,
                                             TierKind::device);
        for (int row = 0; row < rows; ++row) {
            RunTask task{.segment = id, .block = last_block_, .micro = micro, .last_token_of = row};
            task.regions[at(Region::input)] = stream;
            task.regions[at(Region::output)] = {out, row * bytes};
            builder_.run(std::move(task), weights,
                         {{stream.buffer, false}, {out, true, row * bytes, (row + 1) * bytes}});
        }
        builder_.schedule().outputs[static_cast<size_t>(micro)] = {out, 0};
    }

    void add_cache(int block, RunTask& task, std::vector<BufferUse>& uses) {
        const PersistentIds& ids = builder_.in().ids;
        if (last_block_ != static_cast<int>(builder_.in().model.blocks.size()) || block == last_block_)
            return;  // no decoding
        const int64_t offset = ids.cache_offsets[static_cast<size_t>(block)];
        const bool is_final = static_cast<size_t>(block) + 1 == ids.cache_offsets.size();
        const int64_t end = is_final ? offset : ids.cache_offsets[static_cast<size_t>(block) + 1];
        if (end == offset) return;  // a block without attention
        task.cache_keys = {ids.cache, offset};
        task.cache_values = {ids.cache, offset + (end - offset) / 2};
        uses.push_back({ids.cache, true, offset, end});
    }

    ScheduleBuilder& builder_;
    int last_block_;
    std::vector<int> blocks_;
    std::vector<BlockWeights> fetched_;
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
    ForwardLowering(builder, static_cast<int>(input.model.blocks.size())).write();
    return builder.finish();
}

}  // namespace windlass
