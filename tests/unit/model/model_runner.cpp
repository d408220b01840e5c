#include "tests/unit/model/model_runner.h"

#include <numeric>

#include "model/load.h"

namespace windlass {

TokenBatch TokenBatch::make(int64_t rows, std::span<const int64_t> tokens, std::span<const int64_t> targets,
                            std::span<const int64_t> borders) {
    TokenBatch batch{.rows = rows, .sequence_length = static_cast<int64_t>(tokens.size()) / rows};
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.targets.assign(targets.begin(), targets.end());
    for (int64_t row = 0; row < rows; ++row) {
        for (size_t document = 0; document + 1 < borders.size(); ++document) {
            for (int64_t t = borders[document]; t < borders[document + 1]; ++t) {
                batch.positions.push_back(static_cast<int32_t>(t - borders[document]));
                batch.doc_start.push_back(static_cast<int32_t>(borders[document]));
            }
        }
    }
    EXPECT_EQ(batch.positions.size(), batch.tokens.size());
    return batch;
}

Batch TokenBatch::view() const {
    return {.rows = rows,
            .sequence_length = sequence_length,
            .tokens = tokens.data(),
            .positions = positions.data(),
            .doc_start = doc_start.data(),
            .targets = targets.data()};
}

int64_t TokenBatch::trained() const {
    return std::ranges::count_if(targets, [](int32_t target) { return target != kIgnored; });
}

ModelRunner::ModelRunner(const ModelSpec& model, const ParamValues& masters, RunnerOptions options)
    : model_(model), options_(options), stream_(make_stream(DeviceKind::cpu, options.threads)) {
    for (size_t i = 0; i < masters.size(); ++i) load_weight(model.params[i], masters[i]);
}

Tensor ModelRunner::store(DType dtype, Shape shape, std::span<const float> values) {
    weight_memory_.emplace_back(shape.numel() * dtype_bytes(dtype));
    const ParamSpec as{.shape = shape, .file_dtype = dtype};
    encode_elements(as, values, {weight_memory_.back().data(), weight_memory_.back().size()});
    return {dtype, shape, weight_memory_.back().data()};
}

void ModelRunner::load_weight(const ParamSpec& param, std::span<const float> masters) {
    Weight weight;
    weight.base = store(options_.split_weights ? DType::bf16 : options_.compute, param.shape, masters);
    if (options_.split_weights) {
        weight_memory_.emplace_back(param.numel() * 2);
        weight.low = {DType::i16, param.shape, weight_memory_.back().data()};
        for (size_t i = 0; i < masters.size(); ++i)
            weight.low.as<int16_t>()[i] = split_master(std::bit_cast<uint32_t>(masters[i])).lo;
    }
    weights_.push_back(weight);
}

std::vector<Weight> ModelRunner::weights_of(const Block& block, const std::vector<Tensor>* directions) const {
    std::vector<Weight> weights;
    for (const int param : block.params) {
        weights.push_back(weights_[static_cast<size_t>(param)]);
        if (directions != nullptr) weights.back().direction = (*directions)[static_cast<size_t>(param)];
    }
    return weights;
}

OpSize ModelRunner::size_of(const TokenBatch& batch) const {
    return {.rows = batch.rows,
            .sequence_length = batch.sequence_length,
            .compute = options_.compute,
            .split_weights = options_.split_weights,
            .threads = options_.threads};
}

PassOptions ModelRunner::sweep_options(int block_index, const TokenBatch& batch) const {
    const auto index = static_cast<size_t>(block_index);
    const Block& block = model_.blocks[index];
    PassOptions options{.size = size_of(batch),
                        .save = options_.save && !reverse_computes_output(*block.program),
                        .want_grad_input = block_index > 0};
    if (!options_.trainable.empty()) {
        for (const int param : block.params)
            options.trainable.push_back(options_.trainable[static_cast<size_t>(param)]);
    }
    if (index < options_.choices.size()) options.choices = options_.choices[index];
    return options;
}

std::byte* ModelRunner::allocate(int64_t bytes) {
    memory_.emplace_back(bytes);
    return memory_.back().data();
}

void ModelRunner::release() {
    for (const std::deque<Memory>* memories : {&weight_memory_, &memory_}) {
        for (const Memory& memory : *memories) EXPECT_TRUE(memory.intact()) << "written outside";
    }
    memory_.clear();
}

void ModelRunner::run(const Segment& segment, SegmentBinding binding, const TokenBatch& batch, double loss_scale) {
    const Batch view = batch.view();
    const HeadParams head{.loss_scale = loss_scale};
    binding.batch = &view;
    binding.head = &head;
    binding.base[static_cast<size_t>(Region::work)] = allocate(segment.region_bytes(Region::work));
    run_segment(segment, binding, *stream_);
}

std::vector<float> ModelRunner::numbers(const std::byte* data, DType dtype, int64_t count) const {
    std::vector<float> out(static_cast<size_t>(count));
    for (size_t i = 0; i < out.size(); ++i) {
        if (dtype == DType::f32)
            std::memcpy(&out[i], data + 4 * i, 4);
        else
            out[i] = to_float(reinterpret_cast<const bf16*>(data)[i]);
    }
    return out;
}

namespace {

const ValueSpec& output_of(const Block& block) {
    const Program& program = *block.program;
    return program.values[static_cast<size_t>(program.outputs[0])].spec;
}

std::byte*& base_of(SegmentBinding& binding, Region region) {
    return binding.base[static_cast<size_t>(region)];
}

}  // namespace

void ModelRunner::move_saved(const Segment& forward, Kept& kept) {
    for (const Region region : {Region::saved, Region::saved_second, Region::saved_third}) {
        const int64_t bytes = forward.region_bytes(region);
        std::byte*& base = base_of(kept.regions, region);
        std::byte* const other = allocate(bytes);
        kept.was[static_cast<size_t>(region)].assign(base, base + bytes);
        std::copy_n(base, bytes, other);
        std::fill_n(base, bytes, Memory::kFresh);
        base = other;
    }
}

std::byte* ModelRunner::forward_block(const Block& block, const TokenBatch& batch, std::byte* input,
                                      const PassOptions& options, Kept* kept) {
    const Segment segment = forward_pass(block.program, options);
    const std::vector<Weight> weights = weights_of(block);
    SegmentBinding binding{.weights = weights};
    base_of(binding, Region::input) = input;
    std::byte* const output = base_of(binding, Region::output) = allocate(segment.region_bytes(Region::output));
    for (const Region region : {Region::saved, Region::saved_second, Region::saved_third})
        base_of(binding, region) = allocate(segment.region_bytes(region));
    run(segment, binding, batch);
    if (kept != nullptr) {
        kept->input = input;
        kept->regions.base = binding.base;
        move_saved(segment, *kept);
    }
    return output;
}

std::vector<float> ModelRunner::forward(const TokenBatch& batch, const Block& last) {
    std::byte* x = nullptr;
    const PassOptions options{.size = size_of(batch), .save = false};
    for (size_t b = 0; b + 1 < model_.blocks.size(); ++b)
        x = forward_block(model_.blocks[b], batch, x, options, nullptr);
    const std::byte* const y = forward_block(last, batch, x, options, nullptr);
    const ValueSpec& spec = output_of(last);
    std::vector<float> out =
        numbers(y, dtype_of(spec.type, options_.compute), batch.rows * batch.sequence_length * spec.cols);
    release();
    return out;
}

std::byte* ModelRunner::reverse_block(int block_index, const TokenBatch& batch, const Kept& kept,
                                      std::byte* grad_output, std::vector<GradientSink>& sinks_by_param,
                                      GradientResult& result) {
    const Block& block = model_.blocks[static_cast<size_t>(block_index)];
    const Segment segment = backward_pass(block.program, sweep_options(block_index, batch));
    std::vector<GradientSink> sinks;
    for (const int param : block.params) {
        sinks.push_back(sinks_by_param[static_cast<size_t>(param)]);
        sinks_by_param[static_cast<size_t>(param)].first = false;
    }
    const std::vector<Weight> weights = weights_of(block);
    SegmentBinding binding{.base = kept.regions.base, .weights = weights, .sinks = sinks};
    base_of(binding, Region::input) = kept.input;
    base_of(binding, Region::grad_output) = grad_output;
    base_of(binding, Region::output) = allocate(segment.region_bytes(Region::output));
    base_of(binding, Region::grad_input) = allocate(segment.region_bytes(Region::grad_input));
    run(segment, binding, batch, 1.0 / static_cast<double>(batch.trained()));
    for (size_t region = 0; region < kept.was.size(); ++region) {
        const std::vector<std::byte>& was = kept.was[region];
        EXPECT_TRUE(std::equal(was.begin(), was.end(), binding.base[region])) << "backward wrote to what was kept";
    }
    if (reverse_computes_output(*block.program))
        result.losses = numbers(base_of(binding, Region::output), DType::f32, batch.rows * batch.sequence_length);
    const Region place = segment.gradient_in_place ? Region::grad_output : Region::grad_input;
    const std::byte* const gradient = base_of(binding, place);
    result.grad_inputs[static_cast<size_t>(block_index)].assign(gradient, gradient + segment.region_bytes(place));
    return base_of(binding, place);
}

std::vector<GradientSink> ModelRunner::sinks_of(GradientResult& result) const {
    std::vector<GradientSink> sinks(model_.params.size());
    for (size_t i = 0; i < model_.params.size(); ++i) {
        if (!options_.trainable.empty() && options_.trainable[i] == 0) continue;
        const Shape shape = model_.params[i].shape;
        result.gradients[i].assign(static_cast<size_t>(shape.numel()), std::nanf(""));
        const Tensor target(DType::f32, shape, result.gradients[i].data());
        sinks[i] = {.target = target, .first = true};
    }
    return sinks;
}

GradientResult ModelRunner::gradients(const TokenBatch& batch) {
    GradientResult result;
    result.gradients.resize(model_.params.size());
    result.grad_inputs.resize(model_.blocks.size());
    std::vector<GradientSink> sinks = sinks_of(result);
    const int last = static_cast<int>(model_.blocks.size()) - 1;
    std::vector<Kept> kept(model_.blocks.size());
    std::byte* x = nullptr;
    for (int b = 0; b < last; ++b)
        x = forward_block(model_.blocks[static_cast<size_t>(b)], batch, x, sweep_options(b, batch),
                          &kept[static_cast<size_t>(b)]);
    kept.back().input = x;
    std::byte* gradient = nullptr;
    for (int b = last; b >= 0; --b)
        gradient = reverse_block(b, batch, kept[static_cast<size_t>(b)], gradient, sinks, result);
    release();
    return result;
}

TangentResult ModelRunner::tangent(const TokenBatch& batch, const ParamValues& directions, int k, const Block& last) {
    std::vector<Tensor> direction_tensors;
    const size_t weights_before = weight_memory_.size();
    for (size_t i = 0; i < model_.params.size(); ++i) {
        const Shape shape = model_.params[i].shape;
        const Shape stacked = shape.rank() == 2 ? Shape{k * shape[0], shape[1]} : Shape{k, shape[0]};
        direction_tensors.push_back(store(options_.compute, stacked, directions[i]));
    }
    OpSize size = size_of(batch);
    size.k = k;
    SegmentBinding binding;
    for (size_t b = 0; b < model_.blocks.size(); ++b) {
        const Block& block = b + 1 < model_.blocks.size() ? model_.blocks[b] : last;
        const Segment segment = tangent_pass(block.program, {.size = size});
        const std::vector<Weight> weights = weights_of(block, &direction_tensors);
        base_of(binding, Region::input) = base_of(binding, Region::output);
        base_of(binding, Region::tangent_input) = base_of(binding, Region::tangent_output);
        base_of(binding, Region::output) = allocate(segment.region_bytes(Region::output));
        base_of(binding, Region::tangent_output) = allocate(segment.region_bytes(Region::tangent_output));
        binding.weights = weights;
        run(segment, binding, batch);
    }
    const ValueSpec& spec = output_of(last);
    const DType dtype = dtype_of(spec.type, options_.compute);
    const int64_t count = batch.rows * batch.sequence_length * spec.cols;
    TangentResult result{numbers(base_of(binding, Region::output), dtype, count),
                         numbers(base_of(binding, Region::tangent_output), dtype, k * count)};
    release();
    while (weight_memory_.size() > weights_before) weight_memory_.pop_back();
    return result;
}

}  // namespace windlass
