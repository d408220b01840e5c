// kernel_call.h: one op with inputs, weights and outputs of its own, to be called again and again: for probes.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "op/op.h"

namespace windlass {

// Random numbers, since processors are faster on constant ones; the same megabyte again and again.
void fill_randomly(Memory& memory, DType dtype);

// Values are random; what backward reads of forward is forward's own. Memory is taken in the constructor.
class KernelCall {
  public:
    // On a stream of the device.
    KernelCall(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, Device& device, Stream& stream);
    void operator()();
    // Whether calls after it add gradients of weights to what is there, or write them: micro-batches after a step's
    // first do.
    void set_adding(bool adds);
    bool has_sinks() const;
    int64_t bytes() const;  // of all values and weights
    double flops() const { return cost().flops; }
    Cost cost() const { return op_.cost(spec_, size_, direction_); }
    int64_t scratch_bytes() const { return std::ssize(scratch_); }

  private:
    Tensor tensor(const Shape& shape, DType dtype);
    std::vector<Tensor> values(const std::vector<ValueSpec>& specs, int copies = 1);
    void make_directions(const Shape& shape, Weight& weight);
    void make_weights();
    std::byte* memory(int64_t bytes, DType dtype);
    std::byte* address_of(const Memory& memory);
    void make_batch();
    void run(DiffMode mode);

    Device& device_;
    Stream& stream_;
    const OpRecord& op_;
    OpSpec spec_;
    OpSize size_;
    DiffMode direction_;
    std::vector<std::unique_ptr<Memory>> memories_;
    std::vector<Tensor> in_, out_, saved_, grad_out_, grad_in_, tangent_in_, tangent_out_;
    std::vector<uint8_t> add_to_grad_in_;
    std::vector<Weight> weights_;
    std::vector<GradientSink> sinks_;
    std::span<std::byte> scratch_;
    Batch batch_;  // zeros
    HeadParams head_;
};

}  // namespace windlass
