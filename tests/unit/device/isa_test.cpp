#include "device/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace windlass {
namespace {

class IsaTest : public testing::Test {
  protected:
    ~IsaTest() override { set_cpu_isa(before_); }

  private:
    Isa before_ = cpu_isa();
};

TEST_F(IsaTest, PathsUpToTheMachinesCanBeChosen) {
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        EXPECT_EQ(cpu_isa(), isa);
    }
}

// Which is the fastest of them depends on the maker: only the last step is ever left out.
TEST_F(IsaTest, NothingButBf16ProductsIsLeftOutUnasked) {
    if (std::getenv("WINDLASS_CPU") != nullptr) GTEST_SKIP() << "WINDLASS_CPU is set";
    EXPECT_GE(cpu_isa(), std::min(detected_isa(), Isa::avx512));
}

int baseline_path() {
    return 0;
}
int avx2_path() {
    return 1;
}
int avx512_path() {
    return 2;
}

TEST_F(IsaTest, AKernelPicksTheWidestAllowed) {
    const IsaKernel<int()> kernel{baseline_path, avx2_path, avx512_path};
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        EXPECT_EQ(kernel.pick()(), std::min(static_cast<int>(isa), 2));
    }
}

TEST(Isa, NamesAreThoseOfTheVariable) {
    EXPECT_EQ(isa_name(Isa::baseline), "baseline");
    EXPECT_EQ(isa_name(Isa::avx2), "avx2");
    EXPECT_EQ(isa_name(Isa::avx512), "avx512");
    EXPECT_EQ(isa_name(Isa::avx512_bf16), "avx512_bf16");
}

// The variable is read once a process, so each value has a process of its own.
class IsaVariableDeathTest : public testing::Test {
  protected:
    IsaVariableDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    // Exits with 10 + the path chosen, or 9 after printing the error.
    [[noreturn]] static void choose(const char* value) {
        ::setenv("WINDLASS_CPU", value, 1);
        try {
            std::exit(10 + static_cast<int>(cpu_isa()));
        } catch (const UserError& error) {
            std::fputs(error.what(), stderr);
            std::exit(9);
        }
    }
};

TEST_F(IsaVariableDeathTest, LowersThePath) {
    EXPECT_EXIT(choose("baseline"), testing::ExitedWithCode(10), "");
    if (detected_isa() >= Isa::avx2) {
        EXPECT_EXIT(choose("avx2"), testing::ExitedWithCode(11), "");
    }
}

TEST_F(IsaVariableDeathTest, RefusesUnknownNames) {
    EXPECT_EXIT(choose("sse4"), testing::ExitedWithCode(9), "\"sse4\" is not an instruction set.*baseline, avx2");
    EXPECT_EXIT(choose(""), testing::ExitedWithCode(9), "is not an instruction set");
}

TEST_F(IsaVariableDeathTest, RefusesMoreThanTheMachineHas) {
    if (detected_isa() == Isa::avx512_bf16) GTEST_SKIP() << "this machine has everything";
    EXPECT_EXIT(choose("avx512_bf16"), testing::ExitedWithCode(9), "this machine has .* at most");
    EXPECT_DEATH(set_cpu_isa(Isa::avx512_bf16), "this machine has no avx512_bf16");
}

}  // namespace
}  // namespace windlass
