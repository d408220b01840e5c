#include "op/gemm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "base/rng.h"
#include "device/cpu/isa.h"

namespace windlass {
namespace {

// A matrix with gaps between its rows, so that strides matter.
class Matrix {
  public:
    Matrix(DType dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t seed)
        : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + gap), data_(rows * stride_ * dtype_bytes(dtype)) {
        Random random(seed, RandomStream::test);
        for (int64_t i = 0; i < rows * stride_; ++i) set(i, random.normal());
    }
    Tensor view() { return {dtype_, {rows_, cols_}, stride_, data_.data()}; }
    double at(int64_t row, int64_t col) const { return get(row * stride_ + col); }
    const std::vector<std::byte>& bytes() const { return data_; }

  private:
    void set(int64_t i, float x) {
        if (dtype_ == DType::f32) {
            reinterpret_cast<float*>(data_.data())[i] = x;
        } else {
            reinterpret_cast<bf16*>(data_.data())[i] = to_bf16(x);
        }
    }
    double get(int64_t i) const {
        return dtype_ == DType::f32 ? reinterpret_cast<const float*>(data_.data())[i]
                                    : to_float(reinterpret_cast<const bf16*>(data_.data())[i]);
    }

    DType dtype_;
    int64_t rows_, cols_, stride_;
    std::vector<std::byte> data_;
};

struct GemmCase {
    int64_t m, n, k, gap;
    DType in, out;
    bool transpose_a, transpose_b, accumulate, bias;

    std::string name() const {
        return fmt::format("{}x{}x{} gap {} {}->{}{}{}{}{}", m, n, k, gap, dtype_name(in), dtype_name(out),
                           transpose_a ? " ta" : "", transpose_b ? " tb" : "", accumulate ? " add" : "",
                           bias ? " bias" : "");
    }
};

struct Product {
    Matrix a, b, c, bias;
    GemmArgs args;

    explicit Product(const GemmCase& c)
        : a(c.in, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, c.gap, 1),
          b(c.in, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.gap, 2),
          c(c.out, c.m, c.n, c.gap, 3),
          bias(c.in, 1, c.n, 0, 4),
          args{.a = a.view(),
               .b = b.view(),
               .c = this->c.view(),
               .transpose_a = c.transpose_a,
               .transpose_b = c.transpose_b,
               .accumulate = c.accumulate,
               .bias = c.bias ? Tensor(c.in, {c.n}, bias.view().data) : Tensor()} {}
};

// Sums of K products in f32 are off by a few units of the last place of the sum of magnitudes; rounding the result
// to bf16, once, adds half a unit of its own.
void expect_product(const GemmCase& c, const Product& before, const Product& after) {
    for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
            double sum = (c.accumulate ? before.c.at(i, j) : 0) + (c.bias ? before.bias.at(0, j) : 0);
            double magnitude = std::abs(sum);
            for (int64_t k = 0; k < c.k; ++k) {
                const double product = (c.transpose_a ? before.a.at(k, i) : before.a.at(i, k)) *
                                       (c.transpose_b ? before.b.at(j, k) : before.b.at(k, j));
                sum += product;
                magnitude += std::abs(product);
            }
            const double tolerance = magnitude * 4e-7 + (c.out == DType::bf16 ? std::abs(sum) * 0x1.02p-8 : 0);
            ASSERT_NEAR(after.c.at(i, j), sum, tolerance) << c.name() << " at " << i << ", " << j;
        }
    }
}

// Numbers between the rows must survive.
void expect_gaps_untouched(const GemmCase& c, const Product& before, const Product& after) {
    for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = c.n; j < c.n + c.gap; ++j) {
            ASSERT_EQ(after.c.at(i, j), before.c.at(i, j)) << c.name() << " gap of row " << i;
        }
    }
}

std::vector<GemmCase> all_cases() {
    struct Size {
        int64_t m, n, k;
    };
    std::vector<GemmCase> cases;
    for (const Size size : {Size{1, 1, 1}, Size{1, 70, 33}, Size{17, 1, 65}, Size{33, 1, 1}, Size{20, 108, 36},
                            Size{129, 67, 31}, Size{64, 192, 128}}) {
        for (const auto& [in, out] : {std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::bf16},
                                      std::pair{DType::bf16, DType::f32}}) {
            for (int flags = 0; flags < 16; ++flags) {
                const int64_t gap = flags % 3 == 0 ? 0 : flags % 3 == 1 ? 5 : 32;
                cases.push_back({size.m, size.n, size.k, gap, in, out, (flags & 1) != 0, (flags & 2) != 0,
                                 (flags & 4) != 0, (flags & 8) != 0});
            }
        }
    }
    return cases;
}

std::vector<Isa> isas() {
    std::vector<Isa> all;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa <= detected_isa()) all.push_back(isa);
    }
    return all;
}

class GemmOn : public testing::TestWithParam<Isa> {
  protected:
    void SetUp() override { set_cpu_isa(GetParam()); }
    void TearDown() override { set_cpu_isa(before_); }

  private:
    const Isa before_ = cpu_isa();
};

TEST_P(GemmOn, AgreesWithDoublePrecision) {
    Team team(2);
    for (const GemmCase& c : all_cases()) {
        const Product before(c);
        Product product(c);
        gemm(product.args, team);
        expect_product(c, before, product);
        expect_gaps_untouched(c, before, product);
        Product single(c);
        gemm_single(single.args);
        expect_product(c, before, single);
    }
}

TEST_P(GemmOn, BitsDoNotDependOnTheTeam) {
    for (const bool accumulate : {false, true}) {
        for (const DType in : {DType::f32, DType::bf16}) {
            const GemmCase c{300, 331, 1100, 3, in, in, accumulate, !accumulate, accumulate, true};
            std::vector<std::byte> first;
            for (const int threads : {1, 2, 3}) {
                Team team(threads);
                Product product(c);
                gemm(product.args, team);
                if (first.empty()) first = product.c.bytes();
                ASSERT_EQ(first, product.c.bytes()) << c.name() << " with " << threads << " threads";
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, GemmOn, testing::ValuesIn(isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

// oneDNN takes its limit once a process, so each path has a process of its own. What a test switches to afterwards
// limits nothing.
class ProductPathDeathTest : public testing::Test {
  protected:
    ProductPathDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    [[noreturn]] static void say(Isa started, Isa now) {
        ::setenv("WINDLASS_CPU", std::string(isa_name(started)).c_str(), 1);
        if (started_isa() != started) std::_Exit(1);
        set_cpu_isa(now);
        std::fputs(std::string(product_path()).c_str(), stderr);
        std::_Exit(0);
    }
};

TEST_F(ProductPathDeathTest, IsLimitedByThePathThatTheProcessBeganWith) {
    for (const auto& [started, most] : {std::pair(Isa::baseline, "^sse41$"),
                                        {Isa::avx2, "^avx2$"},
                                        {Isa::avx512, "^avx512_core$"},
                                        {Isa::avx512_bf16, "^avx512_core_(bf16|amx)$"}}) {
        if (started > detected_isa()) continue;
        EXPECT_EXIT(say(started, detected_isa()), testing::ExitedWithCode(0), most);
        EXPECT_EXIT(say(started, Isa::baseline), testing::ExitedWithCode(0), most);
    }
}

TEST(Gemm, RefusesShapesThatDoNotMeet) {
    Product product({4, 5, 6, 0, DType::f32, DType::f32, false, false, false, false});
    product.args.transpose_b = true;
    EXPECT_DEATH(gemm_single(product.args), "a product of \\[4, 6\\] and \\[6, 5\\]\\^T into \\[4, 5\\]");
}

}  // namespace
}  // namespace windlass
