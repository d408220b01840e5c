// model_runner.h: a whole model run block by block in plain memory: what an engine does, without tiers or schedules.
//
// All memory starts as NaN and lies between walls: what is read before it is written, or written outside, shows.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "device/device.h"
#include "model/families.h"
#include "model/pass.h"
#include "model/segment.h"
#include "tests/agree/guarded.h"

namespace windlass {

// The tokens of a micro-batch, owned.
struct TokenBatch {
    int64_t rows = 0;
    int64_t sequence_length = 0;
    std::vector<int32_t> tokens, positions, doc_start, targets;  // [rows * sequence_length]

    // `borders`: where documents begin in every row, and its end: {0, 9, 24}.
    static TokenBatch make(int64_t rows, std::span<const int64_t> tokens, std::span<const int64_t> targets,
                           std::span<const int64_t> borders);
    Batch view() const;
    int64_t trained() const;  // targets that are not ignored
};

struct RunnerOptions {
    DType compute = DType::f32;
    bool save = true;  // keep what backward reads; else compute it again
    // By block, of those that run forward: what they keep, by saved_values. Empty: as `save` says.
    std::vector<std::vector<SaveChoice>> choices;
    std::vector<uint8_t> trainable;  // by ModelSpec::params; empty means all
    bool split_weights = false;      // hand f32 kernels both halves of the masters
    int threads = 2;
};

using ParamValues = std::vector<std::vector<float>>;  // by ModelSpec::params

struct GradientResult {
    std::vector<float> losses;  // [T], of each token
    ParamValues gradients;      // of the mean over trained targets; empty for a parameter that is not trained
    std::vector<std::vector<std::byte>> grad_inputs;  // by block: the gradient of its input
};

struct TangentResult {
    std::vector<float> values;    // [T, cols] of the last block
    std::vector<float> tangents;  // [k * T, cols]
};

class ModelRunner {
  public:
    ModelRunner(const ModelSpec& model, const ParamValues& masters, RunnerOptions options);

    std::vector<float> losses(const TokenBatch& batch) { return forward(batch, model_.blocks.back()); }  // [T]
    std::vector<float> logits(const TokenBatch& batch) { return forward(batch, model_.logits); }         // [T, V]
    GradientResult gradients(const TokenBatch& batch);
    // Along k directions, which lie one after the other in each parameter's values; through the loss or the logits.
    TangentResult loss_tangent(const TokenBatch& batch, const ParamValues& directions, int k) {
        return tangent(batch, directions, k, model_.blocks.back());
    }
    TangentResult logits_tangent(const TokenBatch& batch, const ParamValues& directions, int k) {
        return tangent(batch, directions, k, model_.logits);
    }

  private:
    using Memory = agree::Guarded;
    struct Kept {  // of a block's forward, for its backward
        std::byte* input = nullptr;
        SegmentBinding regions;                            // the saved regions, bound
        std::array<std::vector<std::byte>, kRegions> was;  // what they held
    };

    Tensor store(DType dtype, Shape shape, std::span<const float> values);
    void load_weight(const ParamSpec& param, std::span<const float> masters);
    std::vector<Weight> weights_of(const Block& block, const std::vector<Tensor>* directions = nullptr) const;
    OpSize size_of(const TokenBatch& batch) const;
    PassOptions sweep_options(int block_index, const TokenBatch& batch) const;
    std::vector<GradientSink> sinks_of(GradientResult& result) const;
    std::byte* allocate(int64_t bytes);
    // Swaps what forward kept out and in: backward finds it at other addresses, and nothing at the old ones.
    void move_saved(const Segment& forward, Kept& kept);
    void run(const Segment& segment, SegmentBinding binding, const TokenBatch& batch, double loss_scale = 1.0);
    // Runs a block forward; returns where its output lies.
    std::byte* forward_block(const Block& block, const TokenBatch& batch, std::byte* input, const PassOptions& options,
                             Kept* kept);
    // Runs it in reverse; takes where the gradient of its output lies, returns where that of its input does.
    std::byte* reverse_block(int block_index, const TokenBatch& batch, const Kept& kept, std::byte* grad_output,
                             std::vector<GradientSink>& sinks_by_param, GradientResult& result);
    std::vector<float> forward(const TokenBatch& batch, const Block& last);
    TangentResult tangent(const TokenBatch& batch, const ParamValues& directions, int k, const Block& last);
    std::vector<float> numbers(const std::byte* data, DType dtype, int64_t count) const;
    void release();

    const ModelSpec& model_;
    RunnerOptions options_;
    std::unique_ptr<Stream> stream_;
    std::deque<Memory> weight_memory_, memory_;  // memory_: of the pass that runs
    std::vector<Weight> weights_;                // by parameter
};

}  // namespace windlass
