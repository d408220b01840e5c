// kernel_call.h: one op with inputs, weights and outputs of its own, to be called again and again: for probes.
#pragma once

#include <vector>

#include "base/file.h"
#include "op/op.h"

namespace windlass {

// Random numbers, since processors are faster on constant ones; the same megabyte again and again.
void fill_randomly(HugeBuffer& buffer, DType dtype);

// Values are random; what backward reads of forward is forward's own. Memory is taken in the constructor.
class KernelCall {
  public:
    KernelCall(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, Stream& stream);
    void operator()(Stream& stream);
    int64_t bytes() const;  // of all values and weights
    double flops() const { return op_.cost(spec_, size_, direction_).flops; }

  private:
    Tensor tensor(const Shape& shape, DType dtype);
    std::vector<Tensor> values(const std::vector<ValueSpec>& specs, int copies = 1);
    void make_directions(const Shape& shape, Weight& weight);
    void make_weights();
    void run(DiffMode mode, Stream& stream);

    const OpRecord& op_;
    OpSpec spec_;
    OpSize size_;
    DiffMode direction_;
    std::vector<HugeBuffer> buffers_;
    std::vector<Tensor> in_, out_, saved_, grad_out_, grad_in_, tangent_in_, tangent_out_;
    std::vector<uint8_t> add_to_grad_in_;
    std::vector<Weight> weights_;
    std::vector<GradientSink> sinks_;
    HugeBuffer scratch_;
    std::vector<int32_t> zeros_;  // positions, documents, targets
    Batch batch_;
    HeadParams head_;
};

}  // namespace windlass
