#include "op/gemv.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "op/gemm.h"
#include "op/linear.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

struct GemvCase {
    int64_t n, k, gap;  // gap: numbers between the rows of the matrix
    DType in, out;
    bool transpose_b, bias;

    std::string name() const {
        return fmt::format("1x{}x{} gap {} {}->{}{}{}", n, k, gap, dtype_name(in), dtype_name(out),
                           transpose_b ? " tb" : "", bias ? " bias" : "");
    }
};

float number_at(const Tensor& matrix, int64_t row, int64_t col) {
    const int64_t index = row * matrix.row_stride + col;
    return matrix.dtype == DType::f32 ? matrix.as<float>()[index] : to_float(matrix.as<bf16>()[index]);
}

// Rows with gaps between them, full of Gaussian numbers; reads beyond the last number are the sanitizer's to find.
class GemvMatrix {
  public:
    GemvMatrix(DType dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t seed)
        : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + gap) {
        data_.resize(static_cast<size_t>(((rows - 1) * stride_ + cols) * dtype_bytes(dtype)));
        Random random(seed, RandomStream::test);
        for (size_t i = 0; i < data_.size() / static_cast<size_t>(dtype_bytes(dtype)); ++i) {
            const float x = random.normal();
            if (dtype == DType::f32)
                reinterpret_cast<float*>(data_.data())[i] = x;
            else
                reinterpret_cast<bf16*>(data_.data())[i] = to_bf16(x);
        }
    }
    Tensor view() { return {dtype_, {rows_, cols_}, stride_, data_.data()}; }
    const std::vector<std::byte>& bytes() const { return data_; }
    // Numbers that no product here is.
    void overwrite() { std::ranges::fill(data_, std::byte{0x7F}); }

  private:
    DType dtype_;
    int64_t rows_, cols_, stride_;
    std::vector<std::byte> data_;
};

struct GemvProduct {
    GemvMatrix a, b, c, bias;
    std::vector<float> space;
    GemmArgs args;

    explicit GemvProduct(const GemvCase& c)
        : a(c.in, 1, c.k, 0, 1),
          b(c.in, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.gap, 2),
          c(c.out, 1, c.n, 0, 3),
          bias(DType::f32, 1, c.n, 0, 4),
          space(static_cast<size_t>(gemv_space_bytes(c.k, c.n, c.transpose_b)) / sizeof(float)),
          args{.a = a.view(),
               .b = b.view(),
               .c = this->c.view(),
               .transpose_b = c.transpose_b,
               .bias = c.bias ? Tensor(DType::f32, {c.n}, bias.view().data) : Tensor()} {}

    void compute(Team& team) {
        c.overwrite();
        gemv(args, space.data(), team);
    }
};

// Sums of K products in f32 are off by a few units of the last place of the sum of magnitudes; rounding the result
// to bf16, once, adds half a unit of its own.
void expect_gemv(const GemvCase& c, GemvProduct& product) {
    const Tensor b = product.b.view();
    for (int64_t j = 0; j < c.n; ++j) {
        double sum = c.bias ? number_at(product.bias.view(), 0, j) : 0, magnitude = std::abs(sum);
        for (int64_t k = 0; k < c.k; ++k) {
            const double term = static_cast<double>(number_at(product.args.a, 0, k)) *
                                (c.transpose_b ? number_at(b, j, k) : number_at(b, k, j));
            sum += term;
            magnitude += std::abs(term);
        }
        const double tolerance = magnitude * 4e-7 + (c.out == DType::bf16 ? std::abs(sum) * 0x1.02p-8 : 0);
        ASSERT_NEAR(number_at(product.args.c, 0, j), sum, tolerance) << c.name() << " at " << j;
    }
}

std::vector<GemvCase> gemv_cases() {
    struct Size {
        int64_t n, k;
    };
    std::vector<GemvCase> cases;
    // One number; less than a vector; every tail of a step; several panels, parts and ranges of columns, the last ones
    // short.
    for (const Size size :
         {Size{1, 1}, Size{3, 7}, Size{70, 33}, Size{17, 127}, Size{131, 96}, Size{300, 577}, Size{1083, 21}}) {
        for (const auto& [in, out] : {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::bf16},
                                      std::pair{DType::bf16, DType::f32}}) {
            for (int flags = 0; flags < 8; ++flags)
                cases.push_back(
                    {size.n, size.k, (flags & 4) != 0 ? 5 : 0, in, out, (flags & 1) != 0, (flags & 2) != 0});
        }
    }
    return cases;
}

TEST(Gemv, AgreesWithDoublePrecision) {
    Team team(2);
    for (const GemvCase& c : gemv_cases()) {
        GemvProduct product(c);  // making it takes longer than computing it
        on_every_isa([&] {
            product.compute(team);
            expect_gemv(c, product);
        });
    }
}

TEST(Gemv, BitsDoNotDependOnTheTeam) {
    Team alone(1), two(2), three(3);
    for (const GemvCase& c : gemv_cases()) {
        if (c.n < 300) continue;
        GemvProduct product(c);
        on_every_isa([&] {
            product.compute(alone);
            const std::vector<std::byte> first = product.c.bytes();
            for (Team* const team : {&two, &three}) {
                product.compute(*team);
                ASSERT_EQ(product.c.bytes(), first) << c.name() << " with " << team->size() << " threads";
            }
        });
    }
}

// q, k and v: each is what it would be alone, though pieces are cut of all of them.
TEST(Gemv, ProductsTogetherHaveTheBitsOfEach) {
    Team team(2);
    on_every_isa([&] {
        for (const DType type : {DType::f32, DType::bf16}) {
            std::vector<GemvProduct> together, alone;
            std::vector<GemmArgs> all;
            for (const int64_t n : {300, 7, 130}) {
                const GemvCase c{n, 577, 0, type, type, true, n == 7};
                together.emplace_back(c);
                alone.emplace_back(c);
            }
            for (const GemvProduct& product : together) all.push_back(product.args);
            gemv_together(all, team);
            for (size_t i = 0; i < alone.size(); ++i) {
                alone[i].compute(team);
                EXPECT_EQ(together[i].c.bytes(), alone[i].c.bytes()) << "product " << i;
            }
        }
    });
}

// Its bits are not those of gemm.
TEST(Gemv, IsForOneTokenAlone) {
    EXPECT_TRUE(is_gemv({.rows = 1, .sequence_length = 1}));
    EXPECT_FALSE(is_gemv({.rows = 2, .sequence_length = 1}));
    EXPECT_FALSE(is_gemv({.rows = 1, .sequence_length = 2}));
}

TEST(Gemv, RefusesWhatItDoesNotDo) {
    const GemvCase c{5, 6, 0, DType::f32, DType::f32, true, false};
    Team team(1);
    GemvProduct product(c);
    product.args.accumulate = true;
    EXPECT_DEATH(gemv(product.args, product.space.data(), team), "a product of one row");
    GemvMatrix two(DType::f32, 2, 6, 0, 5);
    product.args.accumulate = false;
    product.args.a = two.view();
    EXPECT_DEATH(gemv(product.args, product.space.data(), team), "a product of one row");
}

}  // namespace
}  // namespace windlass
