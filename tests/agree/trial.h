// trial.h: a case of an op made concrete: values, weights and tokens from a seed, in a type; runs its kernels on a
// device.
//
// What kernels may rely on is all they get: backward sees the inputs and outputs that the record says it reads, and
// everything not yet written is NaN. Every run checks that nothing was written outside its place.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/rng.h"
#include "op/op.h"
#include "tests/agree/guarded.h"
#include "tests/agree/reference.h"

namespace windlass::agree {

// A value, a weight or a gradient with its memory; `gap` elements that nobody may touch lie between a matrix's rows.
class Value {
  public:
    Value(DType dtype, Shape shape, int64_t gap = 0);
    const Tensor& tensor() const { return tensor_; }
    void set(const Matrix& matrix);  // rounds to the type
    Matrix matrix() const;           // vectors as [1, C]
    bool intact() const;
    bool operator==(const Value& other) const { return memory_ == other.memory_; }

  private:
    // visit(i, at) for each element: its number, and where it is in memory.
    template <typename Visit>
    void for_elements(Visit visit) const;

    Guarded memory_;
    Tensor tensor_;
};

struct Setting {
    const OpRecord* op = nullptr;
    OpCase op_case;
    DType compute = DType::f32;
    bool split = false;  // weights as halves of f32 masters
    bool gaps = false;   // between the rows of values
    int64_t rank = 0;    // of the factors that directions of matrices come as; 0: in full
    DeviceKind device = DeviceKind::cpu;
    std::string name() const;
};
void PrintTo(const Setting& setting, std::ostream* out);
// On every device of this program (the emulated one alone, where it has that): every op and case in both types, once
// with gaps; those with weights also split, those with matrices also with directions of rank 2 and, one column beyond a
// pair, 3.
std::vector<Setting> all_settings();
// All of them on devices that compute themselves; of the emulated one, where each thread is a fiber, a sample.
std::vector<Setting> some_settings();

struct ForwardResult {
    std::vector<Value> out, saved;
};
struct BackwardResult {
    std::vector<Value> grad_in, grad_weights, out;  // out: of ops whose backward computes it
    bool operator==(const BackwardResult& other) const = default;
};
// What backward finds where it is to put gradients.
struct BackwardMode {
    bool add_to_grad_in = false;  // onto prior_in()
    bool accumulate = false;      // onto prior_weights()
};

class Trial {
  public:
    static constexpr int kDirections = 3;
    explicit Trial(const Setting& setting);

    ForwardResult forward(int threads) const;
    BackwardResult backward(const ForwardResult& kept, int threads, BackwardMode mode = {}) const;
    // Of directions [begin, begin + count), each [T, C].
    std::vector<Value> tangent(const ForwardResult& kept, int threads, int begin = 0, int count = kDirections) const;

    // The same numbers in double precision.
    Problem problem() const;
    Matrix grad_out() const;
    std::vector<Matrix> tangents_in(int mode) const;       // one per input
    std::vector<Matrix> tangents_weights(int mode) const;  // one per weight that is no constant
    std::vector<Matrix> prior_in() const;
    std::vector<Matrix> prior_weights() const;

    // Changes the values and token ids of the first document of the first row; returns how many tokens it has.
    int64_t change_first_document();

    const OpRecord& op() const { return *op_; }
    const OpSpec& spec() const { return spec_; }
    DType compute() const { return compute_; }
    DeviceKind device() const { return device_; }

  private:
    void keep_off_zero();
    void make_positive();
    void make_batch(const OpCase& op_case);
    void make_weights();
    void make_directions();
    OpSize size(int threads, int k) const;
    std::vector<Value> values(std::span<const ValueSpec> specs, int64_t gap) const;  // [T, C]
    void randomize(Value& value);
    std::vector<Weight> weights() const;
    void run(OpCall& call, DiffMode mode) const;

    const OpRecord* op_;
    OpSpec spec_;
    DType compute_;
    DeviceKind device_;
    bool split_;
    int64_t gap_, rank_;
    double scale_;
    Batch batch_;
    HeadParams head_;
    Random rng_{2, RandomStream::test};
    VisibleVector<int32_t> tokens_, positions_, doc_start_, targets_;
    std::vector<int32_t> answers_;  // in the host's memory, whatever the device
    std::vector<Value> in_, base_, low_, grad_out_, prior_in_, prior_weights_;
    std::vector<std::vector<Value>> tangent_in_, direction_;  // [kDirections] of one per input, one per weight
    std::vector<std::vector<Value>> left_, right_;            // [kDirections] of one per weight: a matrix's factors
};

}  // namespace windlass::agree
