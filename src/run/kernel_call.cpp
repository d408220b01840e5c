#include "run/kernel_call.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/rng.h"
#include "base/units.h"
#include "tensor/dtype.h"

namespace windlass {

namespace {

// A mebibyte of them, drawn once: drawing takes longer than many a kernel that is measured.
std::vector<float> drawn_numbers() {
    std::vector<float> numbers(at(kMiB) / sizeof(float));
    Random random(1, RandomStream::test);
    for (float& number : numbers) number = random.uniform() - 0.5f;
    return numbers;
}

std::span<const std::byte> random_piece(DType dtype) {
    static const std::vector<float> wide = drawn_numbers();
    static const std::vector<bf16> narrow = [] {
        std::vector<bf16> numbers(wide.size());
        std::ranges::transform(wide, numbers.begin(), to_bf16);
        return numbers;
    }();
    return dtype == DType::f32 ? std::as_bytes(std::span(wide)) : std::as_bytes(std::span(narrow));
}

}  // namespace

void fill_randomly(Memory& memory, DType dtype) {
    const std::span<const std::byte> piece = random_piece(dtype);
    for (int64_t begin = 0; begin < memory.bytes(); begin += std::ssize(piece))
        memory.write(begin, piece.first(at(std::min(std::ssize(piece), memory.bytes() - begin))));
}

KernelCall::KernelCall(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, Device& device,
                       Stream& stream)
    : device_(device), stream_(stream), op_(op), spec_(std::move(spec)), size_(size), direction_(mode) {
    size_.device = stream.device();
    op_.infer(spec_);
    in_ = values(spec_.in);
    out_ = values(spec_.out);
    saved_ = values(spec_.saved);
    make_weights();
    if (mode == DiffMode::vjp) {
        if (!op_.backward_computes_out) grad_out_ = values(spec_.out);
        grad_in_ = values(spec_.in);
        add_to_grad_in_.assign(grad_in_.size(), 0);
    }
    if (mode == DiffMode::jvp) {
        tangent_in_ = values(spec_.in, size.k);
        tangent_out_ = values(spec_.out, size.k);
    }
    int64_t scratch = 0;
    for (const DiffMode each : {DiffMode::forward, mode})
        scratch = std::max(scratch, op_.scratch_bytes(spec_, size_, each));
    if (scratch > 0) scratch_ = {memory(scratch, DType::f32), at(scratch)};
    make_batch();
    head_.loss_scale = 1.0 / static_cast<double>(size.tokens());
    if (mode == DiffMode::vjp) run(DiffMode::forward);
}

void KernelCall::operator()() {
    run(direction_);
}

int64_t KernelCall::bytes() const {
    int64_t sum = 0;
    for (const std::unique_ptr<Memory>& memory : memories_) sum += memory->bytes();
    return sum;
}

void KernelCall::make_batch() {
    const std::vector<int32_t> zeros(at(size_.tokens()));
    Memory& made = *memories_.emplace_back(device_.allocate(4 * size_.tokens(), MemoryKind::device));
    made.write(0, std::as_bytes(std::span(zeros)));
    const auto* const first = reinterpret_cast<const int32_t*>(address_of(made));
    batch_ = {.rows = size_.rows,
              .sequence_length = size_.sequence_length,
              .tokens = first,
              .positions = first,
              .doc_start = first,
              .targets = first};
}

std::byte* KernelCall::address_of(const Memory& memory) {
    std::byte* address = nullptr;
    stream_.launch([&](const Launch& launch) { address = memory.address(launch); });
    return address;
}

std::byte* KernelCall::memory(int64_t bytes, DType dtype) {
    Memory& made = *memories_.emplace_back(device_.allocate(bytes, MemoryKind::device));
    fill_randomly(made, dtype);
    return address_of(made);
}

Tensor KernelCall::tensor(const Shape& shape, DType dtype) {
    Tensor view(dtype, shape, nullptr);
    view.data = memory(view.bytes(), dtype);
    return view;
}

std::vector<Tensor> KernelCall::values(const std::vector<ValueSpec>& specs, int copies) {
    std::vector<Tensor> list;
    for (const ValueSpec& value : specs)
        list.push_back(tensor({copies * size_.tokens(), value.cols}, dtype_of(value.type, size_.compute)));
    return list;
}

void KernelCall::make_directions(const Shape& shape, Weight& weight) {
    if (const int64_t rank = shape.rank() == 2 ? factor_rank(size_, shape) : 0; rank > 0) {
        weight.left = tensor({size_.k * rank, shape[0]}, DType::f32);
        weight.right = tensor({size_.k * rank, shape[1]}, DType::f32);
        return;
    }
    const Shape directions = shape.rank() == 2 ? Shape{size_.k * shape[0], shape[1]} : Shape{size_.k, shape[0]};
    weight.direction = tensor(directions, size_.compute);
}

void KernelCall::make_weights() {
    for (const Shape& shape : spec_.weights) {
        const bool is_constant = weights_.size() >= op_.first_constant_weight;
        Weight weight{.base = tensor(shape, size_.compute)};
        if (direction_ == DiffMode::jvp && !is_constant) make_directions(shape, weight);
        weights_.push_back(weight);
        if (direction_ == DiffMode::vjp)
            sinks_.push_back(is_constant ? GradientSink{} : GradientSink{tensor(shape, DType::f32), true});
    }
}

void KernelCall::set_adding(bool adds) {
    for (GradientSink& sink : sinks_) sink.first = !adds;
}

bool KernelCall::has_sinks() const {
    return std::ranges::any_of(sinks_, &GradientSink::wanted);
}

void KernelCall::run(DiffMode mode) {
    const OpCall call{.spec = &spec_,
                      .size = &size_,
                      .batch = &batch_,
                      .head = &head_,
                      .in = in_,
                      .out = out_,
                      .saved = saved_,
                      .weights = weights_,
                      .grad_out = grad_out_,
                      .grad_in = grad_in_,
                      .add_to_grad_in = add_to_grad_in_,
                      .sinks = sinks_,
                      .tangent_in = tangent_in_,
                      .tangent_out = tangent_out_,
                      .scratch = scratch_};
    stream_.launch([&](const Launch& launch) { op_.on(stream_.device()).of(mode)(call, launch.stream()); });
}

}  // namespace windlass
