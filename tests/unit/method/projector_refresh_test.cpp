// What a refresh does with a projector: values are taken where another half says so, moments are carried, and the sum
// is written to the matrix.
#include <bit>
#include <cmath>

#include "device/cpu/isa.h"
#include "tests/unit/method/projector_case.h"

namespace windlass::projecting {
namespace {

std::vector<float> normals(int64_t count, uint64_t seed, float scale = 1) {
    Random random(seed, RandomStream::test);
    std::vector<float> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(scale * random.normal());
    return list;
}

// The same positions with other values.
ProjectorCase changed_case(const ProjectorCase& each) {
    ProjectorCase changed = each;
    changed.left_values = normals(std::ssize(each.left_values), 21);
    changed.right_values = normals(std::ssize(each.right_values), 22);
    return changed;
}

Dense by_elements(Dense x) {
    for (double& each : x.data) each *= each;
    return x;
}
void expect_close(const std::vector<float>& got, const Dense& want, double tolerance) {
    double largest = 0;
    for (const double each : want.data) largest = std::max(largest, std::abs(each));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want.data[i], tolerance * largest) << i;
}

TEST(ProjectorRefresh, MomentsAreCarriedAsByDenseProducts) {
    for (ProjectorCase& each : cases()) {
        ProjectorCase changed = changed_case(each);
        const int64_t dm = each.left->shape.cols, dn = each.right->shape.cols;
        std::vector<float> first = normals(dm * dn, 31), second = normals(dm * dn, 32);
        for (float& v : second) v *= v;
        const Dense a = transposed(dense(*each.left, changed.left_values)) * dense(*each.left, each.left_values);
        const Dense c = transposed(dense(*each.right, each.right_values)) * dense(*each.right, changed.right_values);
        const Dense want_first = a * dense(dm, dn, first) * c;
        Dense want_second = by_elements(a) * dense(dm, dn, second) * by_elements(c);
        for (size_t i = 0; i < want_second.data.size(); ++i)
            want_second.data[i] = std::max(want_second.data[i], want_first.data[i] * want_first.data[i]);
        each.with(2, [&](const ProjectorContext& context) {
            carry_moments(context, each.values(), changed.values(), {first, second});
        });
        // f32 sums of at most some hundred terms, by the largest.
        expect_close(first, want_first, 1e-5);
        expect_close(second, want_second, 1e-5);
    }
}

TEST(ProjectorRefresh, MomentsOfTheIdentityStayAndNoStepBecomesALeap) {
    ProjectorCase each(40, 48, 40, 48, 1, 0);
    std::ranges::fill(each.left_values, 1.0f);
    std::ranges::fill(each.right_values, 1.0f);
    std::vector<float> first = normals(40 * 48, 3);
    std::vector<float> second(first.size());
    for (size_t i = 0; i < second.size(); ++i) second[i] = i % 2 == 0 ? 100.0f : 1e-6f;
    const std::vector<float> before = first;
    each.with(2, [&](const ProjectorContext& context) {
        carry_moments(context, each.values(), each.values(), {first, second});
    });
    EXPECT_EQ(first, before);
    for (size_t i = 0; i < second.size(); ++i)
        EXPECT_EQ(second[i], std::max(i % 2 == 0 ? 100.0f : 1e-6f, first[i] * first[i])) << i;
}

TEST(ProjectorRefresh, ValuesAreTakenWhereTheOtherHalfIsShownBetter) {
    ProjectorCase each(96, 64, 48, 32, 4), changed = each;
    const ProjectorCase untouched = each;
    const std::vector<float> other = normals(96 * 64, 5, 0.3f);
    std::vector<float> judge = each.gradient;  // the same gradient, seen through other samples
    for (size_t i = 0; i < judge.size(); ++i) judge[i] += other[i];
    each.with(2, [&](const ProjectorContext& context) {
        const ProjectorRefit refit =
            refit_projector(context, {each.gradient, judge}, {.iterations = 20}, each.values(), changed.values());
        EXPECT_TRUE(refit.accepted);
        EXPECT_LT(refit.after, 1.0);
        EXPECT_EQ(refit.before, projector_bias(context, judge, each.values()).relative());
        EXPECT_EQ(refit.after, projector_bias(context, judge, changed.values()).relative());
        EXPECT_EQ(refit.iterations, 20);
    });
    EXPECT_EQ(each.left_values, untouched.left_values);
    EXPECT_EQ(each.right_values, untouched.right_values);
    for (const float value : changed.left_values) EXPECT_EQ(value, to_float(to_bf16(value)));
    for (const float value : changed.right_values) EXPECT_EQ(value, to_float(to_bf16(value)));
}

TEST(ProjectorRefresh, ValuesStayWhereTheyWereBetter) {
    ProjectorCase each(96, 64, 48, 32, 4), changed = each;
    const std::vector<float> unlike = normals(96 * 64, 6), broken(unlike.size(), std::nanf(""));
    each.with(2, [&](const ProjectorContext& context) {
        rescale_projector(each.values(), projector_bias(context, each.gradient, each.values()).best_scale());
        learn_projector(context, each.gradient, {.iterations = 20}, each.values());
        const auto stay = [&](std::span<const float> fit, std::span<const float> judge) {
            const ProjectorRefit refit =
                refit_projector(context, {fit, judge}, {.iterations = 20}, each.values(), changed.values());
            EXPECT_FALSE(refit.accepted);
            EXPECT_EQ(changed.left_values, each.left_values);
            EXPECT_EQ(changed.right_values, each.right_values);
            return refit;
        };
        const ProjectorRefit worse = stay(unlike, each.gradient);
        EXPECT_GT(worse.after, worse.before);
        stay(broken, each.gradient);
        stay(each.gradient, broken);
    });
}

struct WriteBack {
    std::vector<float> s;
    std::vector<bf16> w;

    explicit WriteBack(const ProjectorCase& of) : s(normals(of.left->shape.cols * of.right->shape.cols, 41, 1e-3f)) {
        for (const float x : normals(of.left->shape.rows * of.right->shape.rows, 42)) w.push_back(to_bf16(x));
    }
    void run(ProjectorCase& of, int threads, const ProjectorRounding& rounding) {
        of.with(threads, [&](const ProjectorContext& context) {
            write_back(context, of.values(), s, rounding, DType::bf16, std::as_writable_bytes(std::span(w)));
        });
    }
    std::vector<uint16_t> bits() const {
        std::vector<uint16_t> list;
        for (const bf16 each : w) list.push_back(each.bits);
        return list;
    }
    // W + P S Q^T
    Dense sum(const ProjectorCase& of) const {
        const SparseShape &left = of.left->shape, &right = of.right->shape;
        Dense sum = dense(*of.left, of.left_values) * dense(left.cols, right.cols, s) *
                    transposed(dense(*of.right, of.right_values));
        for (size_t i = 0; i < w.size(); ++i) sum.data[i] += static_cast<double>(to_float(w[i]));
        return sum;
    }
};

// Half a word each: element e of the model draws from the block of eight it is in.
float rounded_entry(float x, int64_t element, const ProjectorRounding& rounding) {
    const auto words = philox(
        rounding.key,
        {.block = static_cast<uint64_t>(element / 8) * 2, .stream = RandomStream::rounding, .step = rounding.step});
    const uint32_t word = words[static_cast<size_t>(element % 8 / 2)];
    const uint32_t draw = element % 2 == 0 ? word & 0xffff : word >> 16;
    const uint32_t bits = std::bit_cast<uint32_t>(x), cut = bits & 0xffff;
    const uint32_t kept = (bits & 0xffff0000) + (cut + draw > 0xffff ? 0x10000 : 0);
    return std::bit_cast<float>(kept);
}

TEST(ProjectorRefresh, TheSumIsWrittenByTheBitsOfEachElement) {
    for (ProjectorCase& each : cases()) {
        WriteBack back(each);
        const Dense sum = back.sum(each);
        const ProjectorRounding rounding{.key = 9, .step = 12, .first = 512};
        back.run(each, 2, rounding);
        int64_t others = 0;
        for (size_t i = 0; i < back.w.size(); ++i) {
            const auto exact = static_cast<float>(sum.data[i]);
            const float got = to_float(back.w[i]);
            const float want = rounded_entry(exact, 512 + static_cast<int64_t>(i), rounding);
            // f32 sums differ from those in double in their last bits: the drawn bits may then tip the other way.
            others += got != want ? 1 : 0;
            ASSERT_LE(std::abs(got - want), std::abs(exact) * 0x1p-7f + 1e-6f) << i;
        }
        EXPECT_LE(others, std::max<int64_t>(1, std::ssize(back.w) / 200));
        for (const float each_s : back.s) ASSERT_EQ(each_s, 0.0f);
        const std::vector<uint16_t> after = back.bits();
        back.run(each, 1, {.key = 9, .step = 13, .first = 512});
        EXPECT_EQ(back.bits(), after);  // S is zero: what can be kept is kept
    }
}

TEST(ProjectorRefresh, TheSumIsWrittenRightOnTheAverage) {
    ProjectorCase each(40, 24, 20, 12, 2);
    const WriteBack before(each);
    const Dense sum = before.sum(each);
    Doubles errors(before.w.size());
    double total = 0;
    constexpr int kSteps = 400;
    for (int step = 0; step < kSteps; ++step) {
        WriteBack back = before;
        back.run(each, 1, {.key = 9, .step = static_cast<uint32_t>(step)});
        for (size_t i = 0; i < errors.size(); ++i)
            errors[i] += (static_cast<double>(to_float(back.w[i])) - sum.data[i]) / (kSteps * 0x1p-8);
    }
    for (size_t i = 0; i < errors.size(); ++i) {
        const double size = std::exp2(std::ceil(std::log2(std::abs(sum.data[i])) + 1e-9));
        // A distance of bf16 is at most `size` 2^-8 here: its mean of 400 draws has a deviation of at most 1/40.
        EXPECT_LE(std::abs(errors[i]), size * 5.5 / 40 + 1e-4) << i;
        total += errors[i] / size;
    }
    EXPECT_LE(std::abs(total), 5 * std::sqrt(static_cast<double>(errors.size())) / 40);
}

TEST(ProjectorRefresh, NeitherThreadsNorInstructionSetsShow) {
    const Isa before = cpu_isa();
    std::vector<uint32_t> want;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
        for (const int threads : {1, 3}) {
            if (isa > detected_isa()) continue;
            set_cpu_isa(isa);
            ProjectorCase each(70, 1100, 33, 200, 3), changed = changed_case(each);
            WriteBack back(each);
            std::vector<float> first = back.s, second(back.s.size(), 1e-6f);
            back.run(each, threads, {.key = 1, .step = 2});
            each.with(threads, [&](const ProjectorContext& context) {
                carry_moments(context, each.values(), changed.values(), {first, second});
            });
            std::vector<uint32_t> got;
            for (const std::vector<float>& list : {first, second})
                for (const float x : list) got.push_back(std::bit_cast<uint32_t>(x));
            for (const uint16_t bits : back.bits()) got.push_back(bits);
            if (want.empty()) want = got;
            EXPECT_TRUE(got == want) << isa_name(isa) << ", " << threads << " threads";
        }
    set_cpu_isa(before);
}

}  // namespace
}  // namespace windlass::projecting
