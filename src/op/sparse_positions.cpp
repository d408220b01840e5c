#include "op/sparse_positions.h"

#include "base/error.h"
#include "base/index.h"
#include "op/sparse_permutation.h"

namespace windlass {
namespace {

void check(const SparseShape& shape) {
    WINDLASS_CHECK(shape.cols >= 1 && shape.cols <= shape.rows && shape.rows <= kSparseRowsMax && shape.nonzeros >= 1 &&
                       shape.nonzeros <= kSparseNonzerosMax,
                   "a sparse matrix [{}, {}] of {} numbers a row", shape.rows, shape.cols, shape.nonzeros);
}

SparseSums sums_by_row(const SparseShape& shape, const std::vector<SparseLane>& lanes) {
    SparseSums sums;
    for (uint32_t row = 0; row < shape.rows; ++row) {
        sums.begin.push_back(static_cast<uint32_t>(sums.source.size()));
        for (const SparseLane& lane : lanes) {
            sums.value.push_back(static_cast<uint32_t>(sums.source.size()));
            sums.source.push_back(place_in_lane(lane, row) % static_cast<uint32_t>(shape.cols));
        }
    }
    sums.begin.push_back(static_cast<uint32_t>(sums.source.size()));
    return sums;
}

SparseSums sums_by_column(const SparseShape& shape, const std::vector<SparseLane>& lanes) {
    SparseSums sums;
    for (int64_t col = 0; col < shape.cols; ++col) {
        sums.begin.push_back(static_cast<uint32_t>(sums.source.size()));
        for (size_t lane = 0; lane < lanes.size(); ++lane) {
            for (int64_t place = col; place < shape.rows; place += shape.cols) {
                const uint32_t row = row_in_lane(lanes[lane], static_cast<uint32_t>(place));
                sums.source.push_back(row);
                sums.value.push_back(static_cast<uint32_t>(at(row * shape.nonzeros) + lane));
            }
        }
    }
    sums.begin.push_back(static_cast<uint32_t>(sums.source.size()));
    return sums;
}

}  // namespace

std::shared_ptr<const SparsePositions> sparse_positions(const SparseShape& shape) {
    check(shape);
    std::vector<SparseLane> lanes;
    for (int64_t lane = 0; lane < shape.nonzeros; ++lane) lanes.push_back(sparse_lane(shape.seed, lane, shape.rows));
    return std::make_shared<const SparsePositions>(
        SparsePositions{shape, sums_by_column(shape, lanes), sums_by_row(shape, lanes)});
}

}  // namespace windlass
