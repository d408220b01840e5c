// factors.h: directions of low rank: which steps their factors belong to, and drawing them where they are used.
//
// A matrix [rows, cols] moves along u^T v / sqrt(rank), u [rank, rows] and v [rank, cols]; whatever is no matrix moves
// along Gaussian numbers. Factors are never kept: one that stays for a window of steps is counted by the window's first
// step and drawn again, rows and columns of a part of the matrix at a time, on the stack of the thread that works on
// that part. So memory depends on neither model nor steps, and bits on no cut. Formulas and counters: README.md.
#pragma once

#include <algorithm>
#include <array>

#include "model/spec.h"
#include "op/batch.h"
#include "perturb/noise.h"

namespace windlass {

// What the directions of a run are drawn from.
struct Noise {
    NoiseKind kind = NoiseKind::gaussian;
    // low_rank only.
    int64_t rank = 0;         // at most; a matrix's is no more than its shorter side
    int64_t window = 0;       // steps for which a factor is kept; 0: all of a run's
    bool keeps_left = false;  // both factors are kept, not only v
};

inline constexpr int64_t kMergeWindowMax = 1024;  // steps of a window that updates are merged by (Merge)

// The rank of directions over this parameter; 0 where they are not made of factors.
int64_t direction_rank(const Noise& noise, const Shape& shape);
// The first step of the window that this step, counted from 1, is in.
int64_t window_start(int64_t step, int64_t window);

// Elements [first, first + count) of a parameter, whose first one has this number in the model.
NoiseRun noise_run(const Noise& noise, uint64_t seed, const ParamSpec& param, int64_t param_element, int64_t first,
                   int64_t count);
// c times direction `direction` of a step, over the run.
NoiseTerm noise_term(const Noise& noise, const NoiseRun& run, int64_t step, int direction, double c);

// The numbers s that scale the ranks of a term's direction where u is kept: [rank].
void draw_scales(const NoiseRun& run, const NoiseTerm& term, float* out);

// The factors of a low_rank run's whole matrix, whose product is c z: `left` [rank, rows] is c / sqrt(rank) u.
void write_factors(const NoiseRun& run, const NoiseTerm& term, float* left, float* right, Stream& stream);

// ---- a matrix part by part: for noise.cpp ----

// Rows [row, row + rows) and columns [col, col + cols).
struct MatrixPart {
    int64_t row, rows, col, cols;
};

inline constexpr int64_t kFactorRoom = int64_t{1} << 17;  // numbers of factors that a thread has at a time
inline constexpr int64_t kTermsMax = 1024;                // and of how many terms

// Whether a step of `terms` terms can be taken: the factors of all of them are in memory during the step.
constexpr bool is_room_for(int64_t terms, int64_t rank) {
    return terms <= kTermsMax && 2 * terms * rank <= kFactorRoom;
}

// Terms of this rank that there is room for at a time without parts becoming small.
int64_t terms_at_once(int64_t rank);

// A run cut into parts, each with room for the factors of `terms` terms.
class MatrixCut {
  public:
    MatrixCut(const NoiseRun& run, int64_t terms);
    int64_t count() const { return row_parts_ * col_parts_; }
    MatrixPart part(int64_t index) const;

  private:
    int64_t row_, row_end_, cols_;   // of the run: its rows, its columns
    int64_t rows_each_, cols_each_;  // of a part
    int64_t row_parts_ = 0, col_parts_ = 0;
};

// Calls body(piece, its first element in the run) for each stretch of the run's elements that lies in the part. A piece
// is a run over the part as a matrix of its own.
template <typename Body>
void for_part_runs(const NoiseRun& run, const MatrixPart& part, Body body) {
    const bool whole_rows = part.cols == run.cols;
    for (int64_t line = 0; line < (whole_rows ? 1 : part.rows); ++line) {
        const int64_t begin = (part.row + line) * run.cols + part.col;
        const int64_t end = begin + (whole_rows ? part.rows * part.cols : part.cols);
        const int64_t from = std::max(begin, run.first), to = std::min(end, run.first + run.count);
        if (from >= to) continue;
        NoiseRun piece = run;
        piece.element += from - run.first;
        piece.count = to - from;
        piece.first = line * part.cols + from - begin;
        piece.rows = part.rows;
        piece.cols = part.cols;
        body(piece, from - run.first);
    }
}

// The factors of terms over one part, drawn as terms are asked for. Large: half a megabyte of stack.
class DrawnFactors {
  public:
    DrawnFactors(const NoiseRun& run, const MatrixPart& part);
    // The term with its factors over the part, valid as long as this object.
    NoiseTerm draw(const NoiseTerm& term);
    // The sum of terms of one direction and one v, as one: their u, each times its coefficient, are added in turn.
    NoiseTerm draw_sum(std::span<const NoiseTerm> terms);

  private:
    struct Right {
        uint32_t step, direction;
        const float* numbers;
    };
    float* room(int64_t count);
    void draw_rows(NoiseKind factor, uint32_t step, uint32_t direction, float* out);
    const float* left(const NoiseTerm& term);
    const float* right(const NoiseTerm& term);

    const NoiseRun run_;
    const MatrixPart part_;
    int64_t used_ = 0, right_count_ = 0;
    float* added_ = nullptr;  // where sums draw the u that is next
    std::array<Right, kTermsMax> rights_;
    alignas(64) float room_[kFactorRoom];
};

}  // namespace windlass
