// factors.h: derivatives along directions of matrices that come as factors (Weight::left, right): for each direction
// two skinny products instead of a full one.
//
// x (left_j^T right_j) or its transpose is taken from the inside: x times the factor that runs along x's columns, the
// inner one, is a few numbers a token and direction; they say how much of each row of the outer one there is in the
// output. Products with the inner factors of all directions are one, and read x once.
#pragma once

#include "op/loops_cpu.h"
#include "op/op.h"

namespace windlass {

const FactorLoops& factor_loops();

// x inner_j^T of all k directions.
class InnerProducts {
  public:
    // `inner` [k * rank, C]; room for `tokens` rows of x [T, C]. Scratch: bytes() of it.
    InnerProducts(const Tensor& inner, int64_t tokens, const OpSize& size, Scratch& scratch, Team& team);
    static int64_t bytes(int64_t cols, int64_t rank, int64_t tokens, const OpSize& size);

    void compute(const Tensor& x, Team& team);
    // The `rank` numbers of a token and a direction.
    const float* of(int64_t token, int64_t direction) const {
        return products_.as<float>() + token * products_.cols() + direction * rank_;
    }
    int64_t rank() const { return rank_; }

  private:
    int64_t rank_;
    Tensor inner_;     // [k * rank, C], in the type of the computation
    Tensor products_;  // f32 [tokens, k * rank]
};

}  // namespace windlass
