// projector_case.h: a matrix with a projector and a gradient, and the same as dense matrices of doubles.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/rng.h"
#include "method/projector/projector.h"

namespace windlass::projecting {

using Doubles = std::vector<double>;

// One matrix with a projector and a gradient.
struct ProjectorCase {
    std::shared_ptr<const SparsePositions> left, right;
    std::vector<float> left_values, right_values, gradient;

    ProjectorCase(int64_t m, int64_t n, int64_t dm, int64_t dn, int64_t r, uint64_t seed = 7)
        : left(sparse_positions({m, dm, r, seed})), right(sparse_positions({n, dn, r, seed + 1})) {
        Random random(seed, RandomStream::test);
        const auto fill = [&](std::vector<float>& list, int64_t count) {
            for (int64_t i = 0; i < count; ++i) list.push_back(random.normal());
        };
        fill(left_values, m * r);
        fill(right_values, n * r);
        fill(gradient, m * n);
    }
    ProjectorShape shape() const { return {left.get(), right.get()}; }
    ProjectorValues values() { return {left_values, right_values}; }

    // f(context) with a team of so many threads.
    template <typename F>
    auto with(int threads, const F& f) const {
        Team team(threads);
        const ProjectorShape of = shape();
        std::vector<std::byte> memory(static_cast<size_t>(projector_scratch_bytes(of, threads)) + 64);
        const size_t skip = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        std::ranges::fill(memory, std::byte{0xff});  // NaN, where anybody reads what nobody wrote
        return f(ProjectorContext{of, std::span(memory).subspan(skip, memory.size() - 64), team});
    }
};

struct Dense {
    int64_t rows = 0, cols = 0;
    Doubles data;
    Dense(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in), data(static_cast<size_t>(rows * cols)) {}
    double& at(int64_t i, int64_t j) { return data[static_cast<size_t>(i * cols + j)]; }
    double at(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * cols + j)]; }
};

inline Dense dense(const SparsePositions& positions, const std::vector<float>& values) {
    const SparseShape& shape = positions.shape;
    Dense out(shape.rows, shape.cols);
    for (int64_t i = 0; i < shape.rows; ++i)
        for (int64_t k = 0; k < shape.nonzeros; ++k) {
            const auto e = static_cast<size_t>(i * shape.nonzeros + k);
            out.at(i, positions.by_row.source[e]) += values[e];
        }
    return out;
}
inline Dense dense(int64_t rows, int64_t cols, const std::vector<float>& values) {
    Dense out(rows, cols);
    for (size_t i = 0; i < values.size(); ++i) out.data[i] = values[i];
    return out;
}
inline Dense transposed(const Dense& x) {
    Dense out(x.cols, x.rows);
    for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t j = 0; j < x.cols; ++j) out.at(j, i) = x.at(i, j);
    return out;
}
inline Dense operator*(const Dense& x, const Dense& y) {
    Dense out(x.rows, y.cols);
    for (int64_t i = 0; i < x.rows; ++i)
        for (int64_t k = 0; k < x.cols; ++k)
            for (int64_t j = 0; j < y.cols; ++j) out.at(i, j) += x.at(i, k) * y.at(k, j);
    return out;
}
inline double squares(const Dense& x) {
    double sum = 0;
    for (const double each : x.data) sum += each * each;
    return sum;
}

struct Reference {
    Dense p, q, g, s, shown, difference;
    explicit Reference(const ProjectorCase& of)
        : p(dense(*of.left, of.left_values)),
          q(dense(*of.right, of.right_values)),
          g(dense(p.rows, q.rows, of.gradient)),
          s(transposed(p) * g * q),
          shown(p * s * transposed(q)),
          difference(shown) {
        for (size_t i = 0; i < g.data.size(); ++i) difference.data[i] -= g.data[i];
    }
};

// Odd sizes, sizes of whole panels, wider than long, the identity's shape, and vectors.
inline std::vector<ProjectorCase> cases() {
    return {{70, 45, 33, 20, 3}, {64, 96, 32, 64, 4}, {5, 130, 2, 65, 8}, {40, 40, 40, 40, 1, 0},
            {1, 7, 1, 3, 2},     {100, 1, 31, 1, 2},  {33, 65, 17, 1, 5}};
}

}  // namespace windlass::projecting
