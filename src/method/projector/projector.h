// projector.h: a matrix whose gradient is seen through two sparse matrices: W + P S Q^T, W [m, n], P [m, d_m],
// Q [n, d_n], S [d_m, d_n]. S has the gradient P^T G Q, and what the two can show of G is P P^T G Q Q^T.
//
// Numbers are f32. Work is cut by shape alone, and every sum has one order: bits depend on neither the team's size nor
// the instruction set. Formulas: README.md next to this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/cpu/team.h"
#include "op/sparse_positions.h"
#include "tensor/dtype.h"

namespace windlass {

// The positions of the numbers of P and of Q.
struct ProjectorShape {
    const SparsePositions* left = nullptr;   // P
    const SparsePositions* right = nullptr;  // Q

    int64_t rows() const { return left->shape.rows; }         // m
    int64_t cols() const { return right->shape.rows; }        // n
    int64_t left_cols() const { return left->shape.cols; }    // d_m
    int64_t right_cols() const { return right->shape.cols; }  // d_n
    int64_t left_values() const { return rows() * left->shape.nonzeros; }
    int64_t right_values() const { return cols() * right->shape.nonzeros; }
};

// The numbers of P and of Q, row by row.
struct ProjectorValues {
    std::span<float> left;   // [m, r]
    std::span<float> right;  // [n, r]
};

// Memory of the functions of this folder, for one matrix at a time: bytes, aligned to 64.
int64_t projector_scratch_bytes(const ProjectorShape& shape, int threads);

struct ProjectorContext {
    const ProjectorShape& shape;
    std::span<std::byte> scratch;
    Team& team;
};

// Of P P^T G Q Q^T - G, for a gradient G: squared norms (Frobenius).
struct ProjectorBias {
    double gradient = 0;    // |G|^2
    double compressed = 0;  // |P^T G Q|^2
    double shown = 0;       // |P P^T G Q Q^T|^2
    double difference = 0;  // |P P^T G Q Q^T - G|^2

    // |P P^T G Q Q^T - G| / |G|; 0 if G is zero, and NaN if G holds NaN or infinity.
    double relative() const;
    // What P P^T G Q Q^T is best multiplied with: it minimizes |c P P^T G Q Q^T - G|. 1 where nothing is shown.
    double best_scale() const;
};
ProjectorBias projector_bias(const ProjectorContext& context, std::span<const float> gradient,  // [m, n]
                             const ProjectorValues& values);

// P P^T G Q Q^T becomes c times as large: all numbers are multiplied by c^(1/4).
void rescale_projector(const ProjectorValues& values, double c);

struct ProjectorLearning {
    int iterations = 0;  // at most
    double rate = 0.2;   // Adam's, of the root mean square of the numbers of P, and of Q, as they are at first
    double enough = 0;   // relative bias with which it ends
    // It ends after `patience` iterations that gained less than `least_gain`.
    int patience = 10;
    double least_gain = 1e-3;
};
struct ProjectorLearned {
    int iterations = 0;   // steps of Adam that were taken
    double relative = 0;  // of the values that are left: the best that were seen
};
// Moves the numbers of P and Q down the gradient of the relative bias.
ProjectorLearned learn_projector(const ProjectorContext& context, std::span<const float> gradient,
                                 const ProjectorLearning& learning, const ProjectorValues& values);

struct ProjectorHalves {
    std::span<const float> fit, judge;  // [m, n] each: gradients of different samples
};
struct ProjectorRefit {
    double before = 0, after = 0;  // relative bias on `judge`: with the old values, and with those fitted on `fit`
    double scale = 1;              // best_scale() on `fit`
    int iterations = 0;
    bool accepted = false;
};
// Rescales and learns on one half, rounds what was found to bf16, and judges it on the other: `changed` becomes that if
// it is better there, and `values` if not. A gradient with what is no number
// changes nothing. Values are the same in every type that a model keeps them in.
ProjectorRefit refit_projector(const ProjectorContext& context, const ProjectorHalves& gradients,
                               const ProjectorLearning& learning, const ProjectorValues& values,
                               const ProjectorValues& changed);

// Adam's moments of S as f32: what the gradient of S was on the average, and its square.
struct ProjectorMoments {
    std::span<float> first, second;  // [d_m, d_n]
};
// Carries the moments from `values` over to `changed`: M <- A M C and V <- max((A.A) V (C.C), M.M) with A = P'^T P,
// C = Q^T Q' (. is by elements).
void carry_moments(const ProjectorContext& context, const ProjectorValues& values, const ProjectorValues& changed,
                   const ProjectorMoments& moments);

// Which random numbers round W: those of RandomStream::rounding at this step, for the elements from `first` on, in the
// numbering of the whole model. first: a multiple of 8.
struct ProjectorRounding {
    uint64_t key = 0;
    uint32_t step = 0;
    int64_t first = 0;
};
// W <- W + P S Q^T, randomly rounded where W is bf16, the other type being f32; S <- 0.
void write_back(const ProjectorContext& context, const ProjectorValues& values, std::span<float> s,  // [d_m, d_n]
                const ProjectorRounding& rounding, DType type, std::span<std::byte> w);              // [m, n]

}  // namespace windlass
