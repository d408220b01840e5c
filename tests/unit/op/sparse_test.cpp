// Sparse beyond what the agreement test asks: where its numbers stand, and its bits beside the dense product's.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/index.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "op/ops.h"
#include "op/sparse_permutation.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 64, 255, 256, 257, 1000, 5504};
constexpr uint64_t kSeeds[] = {0, 1, 77, uint64_t{1} << 40};

TEST(SparsePositions, EachLaneTakesEachRowOnceAndFindsItAgain) {
    for (const int64_t rows : kSizes) {
        for (const uint64_t seed : kSeeds) {
            for (const int64_t lane : {0, 1, 7}) {
                SCOPED_TRACE(fmt::format("{} rows, seed {}, lane {}", rows, seed, lane));
                const SparseLane order = sparse_lane(seed, lane, rows);
                std::vector<uint8_t> taken(at(rows));
                for (uint32_t row = 0; row < rows; ++row) {
                    const uint32_t place = place_in_lane(order, row);
                    ASSERT_LT(place, rows);
                    EXPECT_EQ(taken[place]++, 0);
                    EXPECT_EQ(row_in_lane(order, place), row);
                }
            }
        }
    }
}

TEST(SparsePositions, EachColumnHasItsShareOfEachLane) {
    for (const auto& [rows, cols] : {std::pair{257, 100}, {256, 128}, {7, 7}, {1000, 1}, {5504, 2048}}) {
        const SparseShape shape{.rows = rows, .cols = cols, .nonzeros = 3, .seed = 5};
        const auto positions = sparse_positions(shape);
        const SparseSums& sums = positions->by_column;
        ASSERT_EQ(std::ssize(sums.begin), cols + 1);
        for (int64_t col = 0; col < cols; ++col) {
            int64_t of_lane[3] = {};
            for (uint32_t e = sums.begin[at(col)]; e < sums.begin[at(col + 1)]; ++e) ++of_lane[sums.value[e] % 3];
            for (const int64_t count : of_lane) EXPECT_TRUE(count == rows / cols || count == (rows + cols - 1) / cols);
        }
    }
}

TEST(SparsePositions, BothListsAreOfOneMatrix) {
    const auto positions = sparse_positions({.rows = 301, .cols = 37, .nonzeros = 4, .seed = 7});
    const SparseSums &by_column = positions->by_column, &by_row = positions->by_row;
    std::vector<std::array<uint32_t, 3>> one, other;  // row, column, number
    for (uint32_t col = 0; col + 1 < by_column.begin.size(); ++col)
        for (uint32_t e = by_column.begin[col]; e < by_column.begin[col + 1]; ++e)
            one.push_back({by_column.source[e], col, by_column.value[e]});
    for (uint32_t row = 0; row + 1 < by_row.begin.size(); ++row)
        for (uint32_t e = by_row.begin[row]; e < by_row.begin[row + 1]; ++e)
            other.push_back({row, by_row.source[e], by_row.value[e]});
    std::ranges::sort(one);
    std::ranges::sort(other);
    EXPECT_EQ(one, other);
}

// Of rows that share a column in lane 0, a cols-th part shares one in lane 1 too: maps that only shift and stretch
// would bring all of them together again.
TEST(SparsePositions, RowsThatMeetInOneLaneRarelyMeetInTheNext) {
    constexpr int64_t kRows = 1024, kCols = 512;
    const auto positions = sparse_positions({.rows = kRows, .cols = kCols, .nonzeros = 2, .seed = 3});
    const SparseSums& sums = positions->by_row;
    const auto column = [&](int64_t row, int lane) { return sums.source[at(2 * row + lane)]; };
    int64_t met_once = 0, met_twice = 0;
    for (int64_t row = 0; row < kRows; ++row)
        for (int64_t other = 0; other < row; ++other) {
            if (column(row, 0) != column(other, 0)) continue;
            ++met_once;
            met_twice += column(row, 1) == column(other, 1) ? 1 : 0;
        }
    EXPECT_EQ(met_once, kCols);
    EXPECT_LE(met_twice, 8) << "one is expected";
}

// Where a program that trained an adapter with these positions is read by another.
TEST(SparsePositions, AreTheSameForever) {
    const auto positions = sparse_positions({.rows = 10, .cols = 4, .nonzeros = 2, .seed = 42});
    EXPECT_EQ(positions->by_row.source,
              (std::vector<uint32_t>{3, 2, 2, 3, 1, 1, 0, 0, 0, 1, 3, 0, 1, 3, 2, 0, 0, 1, 1, 2}));
}

TEST(SparsePositions, OfSeedZeroAreTheIdentity) {
    const auto positions = sparse_positions({.rows = 9, .cols = 9});
    std::vector<uint32_t> all(9);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(positions->by_row.source, all);
    EXPECT_EQ(positions->by_column.source, all);
}

TEST(SparsePositions, RefuseWhatIsNoShape) {
    EXPECT_DEATH(sparse_positions({.rows = 3, .cols = 4}), "a sparse matrix \\[3, 4\\]");
    EXPECT_DEATH(sparse_positions({.rows = 3, .cols = 0}), "a sparse matrix");
    EXPECT_DEATH(sparse_positions({.rows = 3, .cols = 2, .nonzeros = 65}), "of 65 numbers a row");
}

using Direction = SparseAttrs::Direction;

// A call over values in f32.
class SparseCall {
  public:
    SparseCall(const SparseShape& shape, Direction direction, int64_t tokens)
        : shape_(shape), size_{.rows = 1, .sequence_length = tokens, .threads = 2} {
        const bool project = direction == Direction::project;
        spec_ = {.attrs = SparseAttrs{sparse_positions(shape), direction},
                 .in = {{project ? shape.rows : shape.cols}},
                 .weights = {{shape.rows, shape.nonzeros}}};
        kSparse.infer(spec_);
        x_.resize(at(tokens * spec_.in[0].cols));
        y_.resize(at(tokens * spec_.out[0].cols));
        values_.resize(at(spec_.weights[0].numel()));
    }

    // Integers so small that every sum is exact.
    void set_integers() {
        Random random(3, RandomStream::test);
        for (auto* numbers : {&x_, &values_})
            for (float& number : *numbers) number = static_cast<float>(static_cast<int64_t>(random.below(15)) - 7);
    }

    void run() {
        std::vector<std::byte> scratch(at(kSparse.scratch_bytes(spec_, size_, DiffMode::forward)) + 64);
        void* begin = scratch.data();
        size_t space = scratch.size();
        std::align(64, 1, begin, space);
        const int64_t tokens = size_.tokens();
        const Tensor in(DType::f32, {tokens, spec_.in[0].cols}, x_.data()),
            out(DType::f32, {tokens, spec_.out[0].cols}, y_.data());
        const Weight weight{.base = Tensor(DType::f32, spec_.weights[0], values_.data())};
        OpCall call{.spec = &spec_, .size = &size_, .in = {&in, 1}, .out = {&out, 1}, .weights = {&weight, 1}};
        call.scratch = {static_cast<std::byte*>(begin), space};
        CpuStream stream(2);
        kSparse.on(DeviceKind::cpu).of(DiffMode::forward)(call, stream);
    }

    // The matrix written out, [rows, cols].
    std::vector<float> dense() const {
        std::vector<float> matrix(at(shape_.rows * shape_.cols));
        const SparseSums& sums = spec_.get<SparseAttrs>().positions->by_row;
        for (int64_t row = 0; row < shape_.rows; ++row)
            for (int64_t k = 0; k < shape_.nonzeros; ++k) {
                const size_t e = at(row * shape_.nonzeros + k);
                matrix[at(row * shape_.cols + sums.source[e])] += values_[e];
            }
        return matrix;
    }

    SparseShape shape_;
    OpSize size_;
    OpSpec spec_;
    std::vector<float> x_, y_, values_;
};

TEST(Sparse, IsTheDenseProductBitForBitOfIntegers) {
    constexpr int64_t kTokens = 37;
    const SparseShape shape{.rows = 301, .cols = 87, .nonzeros = 5, .seed = 11};
    for (const Direction direction : {Direction::project, Direction::expand}) {
        SparseCall call(shape, direction, kTokens);
        call.set_integers();
        const std::vector<float> dense = call.dense();
        const bool project = direction == Direction::project;
        const int64_t in = call.spec_.in[0].cols, out = call.spec_.out[0].cols;
        std::vector<float> want(call.y_.size());
        for (int64_t t = 0; t < kTokens; ++t)
            for (int64_t o = 0; o < out; ++o)
                for (int64_t i = 0; i < in; ++i)
                    want[at(t * out + o)] +=
                        call.x_[at(t * in + i)] * dense[at((project ? i : o) * shape.cols + (project ? o : i))];
        on_every_isa([&] {
            std::ranges::fill(call.y_, NAN);
            call.run();
            EXPECT_EQ(call.y_, want);
        });
    }
}

TEST(Sparse, OfTheIdentityMovesNumbersAsTheyAre) {
    SparseCall call({.rows = 33, .cols = 33}, Direction::project, 18);
    for (size_t i = 0; i < call.x_.size(); ++i) call.x_[i] = std::sin(static_cast<float>(i));
    call.x_[5] = -0.0f;
    std::ranges::fill(call.values_, 1.0f);
    call.run();
    EXPECT_EQ(std::memcmp(call.y_.data(), call.x_.data(), call.x_.size() * sizeof(float)), 0);
}

// Lanes in their order, and of a lane rows in the order of their places; no other order gives these bits.
TEST(Sparse, SumsInOneOrderOnEveryInstructionSet) {
    SparseCall call({.rows = 90, .cols = 10, .nonzeros = 3, .seed = 2}, Direction::project, 20);
    for (size_t i = 0; i < call.x_.size(); ++i) call.x_[i] = std::sin(static_cast<float>(i));
    for (size_t i = 0; i < call.values_.size(); ++i) call.values_[i] = std::cos(static_cast<float>(i));
    std::vector<float> want;
    for (int64_t t = 0; t < 20; ++t)
        for (int64_t col = 0; col < 10; ++col) {
            float sum = 0;
            for (int64_t k = 0; k < 3; ++k) {
                const SparseLane lane = sparse_lane(2, k, 90);
                for (int64_t place = col; place < 90; place += 10) {
                    const int64_t row = row_in_lane(lane, static_cast<uint32_t>(place));
                    sum += call.values_[at(row * 3 + k)] * call.x_[at(t * 90 + row)];
                }
            }
            want.push_back(sum);
        }
    on_every_isa([&] {
        call.run();
        EXPECT_EQ(call.y_, want);
    });
}

TEST(Sparse, RefusesAGradientOfItsNumbers) {
    SparseCall call({.rows = 8, .cols = 4}, Direction::project, 2);
    const GradientSink sink{Tensor(DType::f32, {8, 1}, call.values_.data()), true};
    const OpCall given{.spec = &call.spec_, .size = &call.size_, .sinks = {&sink, 1}};
    CpuStream stream(1);
    EXPECT_DEATH(kSparse.on(DeviceKind::cpu).of(DiffMode::vjp)(given, stream), "have no gradient");
}

TEST(Sparse, WantsItsNumbersByRow) {
    SparseCall call({.rows = 8, .cols = 4, .nonzeros = 2}, Direction::expand, 2);
    call.spec_.weights = {{8, 3}};
    EXPECT_DEATH(kSparse.infer(call.spec_), "a sparse matrix of 8 rows by a weight");
}

}  // namespace
}  // namespace windlass
