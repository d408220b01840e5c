#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace windlass {
namespace {

TEST(Shape, CountsItsElements) {
    EXPECT_EQ(Shape({}).numel(), 1);
    EXPECT_EQ(Shape({}).rank(), 0);
    EXPECT_EQ(Shape({4096, 768}).numel(), 4096 * 768);
    EXPECT_EQ(Shape({3, 0, 2}).numel(), 0);
    EXPECT_EQ(Shape({4096, 768}).to_string(), "[4096, 768]");
}

TEST(Shape, EqualMeansSameRankAndDimensions) {
    EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
    EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
    EXPECT_NE(Shape({2}), Shape({2, 1}));
    EXPECT_NE(Shape({}), Shape({0}));
}

TEST(ShapeDeathTest, HasAtMostFiveDimensions) {
    EXPECT_EQ(Shape({1, 1, 1, 1, 1}).rank(), 5);
    EXPECT_DEATH(Shape({1, 1, 1, 1, 1, 1}), "at most 5");
}

class Matrix : public testing::Test {
  protected:
    Matrix() { std::iota(numbers_.begin(), numbers_.end(), 0.0f); }

    std::vector<float> numbers_ = std::vector<float>(12);
    Tensor matrix_{DType::f32, {3, 4}, numbers_.data()};
};

TEST_F(Matrix, KnowsItsSize) {
    EXPECT_EQ(matrix_.rows(), 3);
    EXPECT_EQ(matrix_.cols(), 4);
    EXPECT_EQ(matrix_.row_stride, 4);
    EXPECT_EQ(matrix_.bytes(), 48);
    EXPECT_TRUE(matrix_.contiguous());
    EXPECT_FALSE(matrix_.empty());
    EXPECT_TRUE(Tensor().empty());
}

TEST_F(Matrix, SlicesOfRowsStayContiguous) {
    const Tensor rows = matrix_.slice_rows(1, 2);
    EXPECT_EQ(rows.shape, Shape({2, 4}));
    EXPECT_EQ(*rows.as<float>(), 4.0f);
    EXPECT_TRUE(rows.contiguous());
    EXPECT_EQ(matrix_.slice_rows(3, 0).numel(), 0);
}

TEST_F(Matrix, SlicesOfColumnsKeepTheStride) {
    const Tensor cols = matrix_.slice_cols(1, 2);
    EXPECT_EQ(cols.shape, Shape({3, 2}));
    EXPECT_EQ(cols.row_stride, 4);
    EXPECT_FALSE(cols.contiguous());
    EXPECT_EQ(cols.bytes(), 24);
    EXPECT_EQ(cols.as<float>()[2 * cols.row_stride], 9.0f);
    const Tensor corner = cols.slice_rows(2, 1).slice_cols(1, 1);
    EXPECT_EQ(*corner.as<float>(), 10.0f);
    EXPECT_TRUE(corner.contiguous());  // one row has no gaps
}

TEST_F(Matrix, SlicesOfOtherTypesCountInElements) {
    const Tensor narrow(DType::bf16, {3, 4}, numbers_.data());
    EXPECT_EQ(narrow.slice_rows(1, 1).as<std::byte>() - narrow.as<std::byte>(), 8);
    EXPECT_EQ(narrow.slice_cols(3, 1).as<std::byte>() - narrow.as<std::byte>(), 6);
}

TEST_F(Matrix, RefusesSlicesOutside) {
    EXPECT_DEATH(matrix_.slice_rows(2, 2), "rows 2\\+2 of \\[3, 4\\]");
    EXPECT_DEATH(matrix_.slice_rows(-1, 2), "rows");
    EXPECT_DEATH(matrix_.slice_cols(4, 1), "columns 4\\+1");
}

TEST(Tensor, AVectorIsARowPerElement) {
    std::vector<float> numbers(6);
    const Tensor vector(DType::f32, {6}, numbers.data());
    EXPECT_EQ(vector.rows(), 6);
    EXPECT_EQ(vector.cols(), 1);
    EXPECT_TRUE(vector.contiguous());
    const Tensor deep(DType::f32, {2, 3, 1}, numbers.data());
    EXPECT_EQ(deep.rows(), 2);
    EXPECT_EQ(deep.cols(), 3);
}

}  // namespace
}  // namespace windlass
