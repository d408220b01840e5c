#include "op/gemv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "op/gemm.h"
#include "op/linear.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

struct GemvCase {
    int64_t m, n, k, gap;  // gap: numbers between the rows of all matrices
    DType in, out;
    bool transpose_b, bias;

    std::string name() const {
        return fmt::format("{}x{}x{} gap {} {}->{}{}{}", m, n, k, gap, dtype_name(in), dtype_name(out),
                           transpose_b ? " tb" : "", bias ? " bias" : "");
    }
};

float number_at(const Tensor& matrix, int64_t row, int64_t col) {
    const int64_t index = row * matrix.row_stride + col;
    return matrix.dtype == DType::f32 ? matrix.as<float>()[index] : to_float(matrix.as<bf16>()[index]);
}

// Rows with gaps between them, full of Gaussian numbers; reads beyond the last number are the sanitizer's to find.
class Matrix {
  public:
    Matrix(DType dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t seed)
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

  private:
    DType dtype_;
    int64_t rows_, cols_, stride_;
    std::vector<std::byte> data_;
};

struct Product {
    Matrix a, b, c, bias;
    std::vector<float> space;
    GemmArgs args;

    explicit Product(const GemvCase& c)
        : a(c.in, c.m, c.k, c.gap, 1),
          b(c.in, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.gap, 2),
          c(c.out, c.m, c.n, c.gap, 3),
          bias(DType::f32, 1, c.n, 0, 4),
          space(static_cast<size_t>(gemv_space_bytes(c.m, c.k)) / sizeof(float)),
          args{.a = a.view(),
               .b = b.view(),
               .c = this->c.view(),
               .transpose_b = c.transpose_b,
               .bias = c.bias ? Tensor(DType::f32, {c.n}, bias.view().data) : Tensor()} {}

    void compute(Team& team) { gemv(args, space.data(), team); }
};

// Sums of K products in f32 are off by a few units of the last place of the sum of magnitudes; rounding the result
// to bf16, once, adds half a unit of its own.
void expect_product(const GemvCase& c, Product& product) {
    for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
            double sum = c.bias ? number_at(product.bias.view(), 0, j) : 0, magnitude = std::abs(sum);
            for (int64_t k = 0; k < c.k; ++k) {
                const Tensor b = product.b.view();
                const double term = static_cast<double>(number_at(product.a.view(), i, k)) *
                                    (c.transpose_b ? number_at(b, j, k) : number_at(b, k, j));
                sum += term;
                magnitude += std::abs(term);
            }
            const double tolerance = magnitude * 4e-7 + (c.out == DType::bf16 ? std::abs(sum) * 0x1.02p-8 : 0);
            ASSERT_NEAR(number_at(product.args.c, i, j), sum, tolerance) << c.name() << " at " << i << ", " << j;
        }
    }
}

// Numbers between the rows must survive.
void expect_gaps_untouched(const GemvCase& c, const Product& product) {
    const Product before(c);
    for (int64_t i = 0; i + 1 < c.m; ++i) {
        for (int64_t j = c.n; j < c.n + c.gap; ++j) {
            ASSERT_EQ(number_at(product.args.c, i, j), number_at(before.args.c, i, j)) << c.name() << " row " << i;
        }
    }
}

std::vector<GemvCase> all_cases() {
    struct Size {
        int64_t n, k;
    };
    std::vector<GemvCase> cases;
    // One number; less than a vector; every tail of a step; several panels of both kinds, the last one short.
    for (const Size size : {Size{1, 1}, Size{3, 7}, Size{70, 33}, Size{17, 127}, Size{131, 96}, Size{300, 577}}) {
        for (const auto& [in, out] : {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::bf16},
                                      std::pair{DType::bf16, DType::f32}}) {
            for (int64_t m = 1; m <= kGemvRowsMax; ++m) {
                for (int flags = 0; flags < 4; ++flags)
                    cases.push_back(
                        {m, size.n, size.k, (m + flags) % 3 * 5, in, out, (flags & 1) != 0, (flags & 2) != 0});
            }
        }
    }
    return cases;
}

TEST(Gemv, AgreesWithDoublePrecision) {
    Team team(2);
    on_every_isa([&] {
        for (const GemvCase& c : all_cases()) {
            Product product(c);
            product.compute(team);
            expect_product(c, product);
            expect_gaps_untouched(c, product);
        }
    });
}

TEST(Gemv, BitsDoNotDependOnTheTeam) {
    Team alone(1), two(2), three(3);
    on_every_isa([&] {
        for (const GemvCase& c : all_cases()) {
            if (c.n < 300) continue;
            Product first(c);
            first.compute(alone);
            for (Team* const team : {&two, &three}) {
                Product product(c);
                product.compute(*team);
                ASSERT_EQ(product.c.bytes(), first.c.bytes()) << c.name() << " with " << team->size() << " threads";
            }
        }
    });
}

// A token of a prompt is what it would be in a pass of its own.
TEST(Gemv, BitsOfARowDoNotDependOnTheOthers) {
    Team team(2);
    on_every_isa([&] {
        for (const GemvCase& c : all_cases()) {
            if (c.m < kGemvRowsMax) continue;
            Product together(c);
            together.compute(team);
            for (int64_t row = 0; row < c.m; ++row) {
                Product alone(c);
                alone.args.a = alone.args.a.slice_rows(row, 1);
                alone.args.c = alone.args.c.slice_rows(row, 1);
                alone.compute(team);
                for (int64_t j = 0; j < c.n; ++j) {
                    ASSERT_EQ(number_at(together.args.c, row, j), number_at(alone.args.c, 0, j))
                        << c.name() << " row " << row;
                }
            }
        }
    });
}

// Its bits are not those of gemm: training and evaluation never take it, however few their tokens.
TEST(Gemv, IsForDecodingAFewRowsAlone) {
    EXPECT_FALSE(is_gemv({.rows = 1, .row_length = 1}));
    EXPECT_TRUE(is_gemv({.rows = 1, .row_length = 1, .decoding = true}));
    EXPECT_TRUE(is_gemv({.rows = 2, .row_length = kGemvRowsMax / 2, .decoding = true}));
    EXPECT_FALSE(is_gemv({.rows = 1, .row_length = kGemvRowsMax + 1, .decoding = true}));
}

TEST(Gemv, RefusesWhatItDoesNotDo) {
    const GemvCase c{2, 5, 6, 0, DType::f32, DType::f32, true, false};
    Team team(1);
    Product product(c);
    product.args.accumulate = true;
    EXPECT_DEATH(gemv(product.args, product.space.data(), team), "a product of a few rows");
    Product wide({kGemvRowsMax + 1, 5, 6, 0, DType::f32, DType::f32, true, false});
    EXPECT_DEATH(gemv(wide.args, wide.space.data(), team), "a product of a few rows");
}

}  // namespace
}  // namespace windlass
