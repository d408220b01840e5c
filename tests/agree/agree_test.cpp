// Every op, case, type and instruction set against its reference, against itself, and against other team sizes.
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/isa.h"
#include "tests/agree/trial.h"

namespace windlass::agree {
namespace {

// How far a result may be from the truth, relative to itself and to the size of its fellows (a sum of many terms is
// as wrong as the terms are large). bf16: rounding a result to 8 bits moves it by 2^-8, and what a matrix product or a
// softmax rounds inside is independent in each term. f32: 24 bits, sums of up to 1037 terms, exponentials to 2 units.
double precision(DType compute) {
    return compute == DType::bf16 ? 0x1p-8 : 0x1p-20;
}

double rms(const std::vector<double>& numbers) {
    double squares = 0;
    for (const double number : numbers) squares += number * number;
    return numbers.empty() ? 0 : std::sqrt(squares / static_cast<double>(numbers.size()));
}

// <a, b>, and how far off it may be when a's numbers are independently off by `precision`: 8 standard deviations.
struct Inner {
    double value = 0;
    double tolerance = 0;
    void add(const Matrix& a, const Matrix& b, double precision) {
        ASSERT_EQ(a.numbers.size(), b.numbers.size());
        const double typical = rms(a.numbers);
        double squares = 0;
        for (size_t i = 0; i < a.numbers.size(); ++i) {
            value += a.numbers[i] * b.numbers[i];
            const double part = (std::abs(a.numbers[i]) + typical) * b.numbers[i];
            squares += part * part;
        }
        tolerance = std::hypot(tolerance, 8 * precision * std::sqrt(squares));
    }
};

void expect_close(const Matrix& got, const Matrix& want, double precision, std::string_view what) {
    ASSERT_EQ(got.numbers.size(), want.numbers.size());
    const double typical = rms(want.numbers);
    for (size_t i = 0; i < got.numbers.size(); ++i) {
        const double tolerance = precision * (std::abs(want.numbers[i]) + typical) + 1e-30;
        ASSERT_LE(std::abs(got.numbers[i] - want.numbers[i]), tolerance)
            << what << " at " << i << ": " << got.numbers[i] << ", the truth is " << want.numbers[i];
    }
}

// Directions to differentiate along: dense random ones, then single numbers spread over inputs and weights.
struct Probe {
    std::vector<Matrix> in, weights;
};
std::vector<Probe> probes(const Trial& trial) {
    constexpr size_t kSingles = 5;  // of each input and weight
    std::vector<Probe> list;
    for (int d = 0; d < Trial::kDirections; ++d) list.push_back({trial.tangents_in(d), trial.tangents_weights(d)});
    Probe none = list[0];
    for (auto* part : {&none.in, &none.weights}) {
        for (Matrix& matrix : *part) std::fill(matrix.numbers.begin(), matrix.numbers.end(), 0.0);
    }
    for (auto part : {&Probe::in, &Probe::weights}) {
        for (size_t i = 0; i < (none.*part).size(); ++i) {
            for (size_t n = 0; n < kSingles; ++n) {
                std::vector<double>& numbers = ((list.emplace_back(none)).*part)[i].numbers;
                numbers[(2 * n + 1) * numbers.size() / (2 * kSingles)] = 1;
            }
        }
    }
    return list;
}

void step(std::vector<Matrix>& at, const std::vector<Matrix>& direction, double length) {
    for (size_t i = 0; i < direction.size(); ++i) {
        for (size_t n = 0; n < at[i].numbers.size(); ++n) at[i].numbers[n] += length * direction[i].numbers[n];
    }
}

// d/dh <v, f(x + h u)> at 0 by the central difference, whose error is of order h^2 = 1e-10 (rounding: 1e-16 / h).
double derivative(const Trial& trial, const Problem& at, const Probe& u, const Matrix& v) {
    constexpr double kStep = 1e-5;
    double difference = 0;
    for (const double sign : {1.0, -1.0}) {
        Problem moved = at;
        step(moved.in, u.in, sign * kStep);
        step(moved.weights, u.weights, sign * kStep);
        const Matrix out = reference(trial.op().name, moved);
        for (size_t i = 0; i < out.numbers.size(); ++i) difference += sign * v.numbers[i] * out.numbers[i];
    }
    return difference / (2 * kStep);
}

std::vector<Isa> isas() {
    std::vector<Isa> list;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa <= detected_isa()) list.push_back(isa);
    }
    return list;
}

class Agree : public testing::TestWithParam<Setting> {
  protected:
    ~Agree() override { set_cpu_isa(before_); }

    // Runs the body on every path that this machine has. A device's threads come in another order each time.
    template <typename Body>
    void on_every_isa(Body body) {
        if (GetParam().device != DeviceKind::cpu) return body();
        for (const Isa isa : isas()) {
            SCOPED_TRACE(isa_name(isa));
            set_cpu_isa(isa);
            body();
            if (HasFatalFailure()) return;
        }
    }

    Trial trial_{GetParam()};
    const double precision_ = precision(GetParam().compute);

  private:
    Isa before_ = cpu_isa();
};

// <J^T v, u> from backward's results.
Inner pulled_back(const BackwardResult& result, const Probe& u, double precision) {
    Inner inner;
    for (size_t i = 0; i < u.in.size(); ++i) inner.add(result.grad_in[i].matrix(), u.in[i], precision);
    for (size_t i = 0; i < u.weights.size(); ++i) inner.add(result.grad_weights[i].matrix(), u.weights[i], precision);
    return inner;
}

TEST_P(Agree, ForwardIsTheFormula) {
    const Matrix want = reference(trial_.op().name, trial_.problem());
    on_every_isa([&] {
        const ForwardResult got = trial_.forward(1);
        expect_close(got.out[0].matrix(), want, precision_, "out");
        if (!trial_.op().backward_computes_out) return;
        const BackwardResult fused = trial_.backward(got, 1);
        expect_close(fused.out[0].matrix(), want, precision_, "out of backward");
    });
}

TEST_P(Agree, BackwardIsTheDerivative) {
    const Problem problem = trial_.problem();
    const Matrix v = trial_.grad_out();
    const std::vector<Probe> directions = probes(trial_);
    std::vector<double> want;
    for (const Probe& u : directions) want.push_back(derivative(trial_, problem, u, v));
    on_every_isa([&] {
        const BackwardResult got = trial_.backward(trial_.forward(1), 1);
        for (size_t i = 0; i < directions.size(); ++i) {
            const Inner inner = pulled_back(got, directions[i], precision_);
            EXPECT_NEAR(inner.value, want[i], inner.tolerance + 1e-8 * std::abs(want[i])) << "probe " << i;
        }
    });
}

TEST_P(Agree, TangentIsTheAdjointOfBackward) {
    on_every_isa([&] {
        const ForwardResult kept = trial_.forward(1);
        const BackwardResult gradient = trial_.backward(kept, 1);
        const std::vector<Value> tangents = trial_.tangent(kept, 1);
        for (int d = 0; d < Trial::kDirections; ++d) {
            Inner forward;
            forward.add(tangents[static_cast<size_t>(d)].matrix(), trial_.grad_out(), precision_);
            const Probe u{trial_.tangents_in(d), trial_.tangents_weights(d)};
            const Inner backward = pulled_back(gradient, u, precision_);
            EXPECT_NEAR(forward.value, backward.value, forward.tolerance + backward.tolerance) << "direction " << d;
        }
    });
}

// A library may sum a product of more rows in another order; nothing else may differ, and its result is rounded once.
TEST_P(Agree, DirectionsTogetherAreDirectionsOneByOne) {
    on_every_isa([&] {
        const ForwardResult kept = trial_.forward(1);
        const std::vector<Value> together = trial_.tangent(kept, 1);
        for (int d = 0; d < Trial::kDirections; ++d) {
            const std::vector<Value> alone = trial_.tangent(kept, 1, d, 1);
            const Value& one = alone[0];
            const Matrix got = together[static_cast<size_t>(d)].matrix(), want = one.matrix();
            const double unit = one.tensor().dtype == DType::bf16 ? 0x1p-8 : 0x1p-22;
            const double typical = rms(want.numbers) * 0x1p-20;
            ASSERT_EQ(got.numbers.size(), want.numbers.size());
            for (size_t i = 0; i < got.numbers.size(); ++i)
                ASSERT_NEAR(got.numbers[i], want.numbers[i], unit * std::abs(want.numbers[i]) + typical)
                    << "direction " << d << ", number " << i;
        }
    });
}

// One rounding of the sum, and one of the gradient that it is compared with.
TEST_P(Agree, GradientsAddToWhatIsThere) {
    on_every_isa([&] {
        const ForwardResult kept = trial_.forward(1);
        const BackwardResult fresh = trial_.backward(kept, 1);
        const BackwardResult added = trial_.backward(kept, 1, {.add_to_grad_in = true, .accumulate = true});
        const auto check = [](const Value& sum, Matrix want, const Value& gradient, double unit) {
            const Matrix part = gradient.matrix(), got = sum.matrix();
            const double typical = rms(part.numbers) * 0x1p-20;  // another order of summation
            for (size_t i = 0; i < got.numbers.size(); ++i) {
                want.numbers[i] += part.numbers[i];
                const double tolerance = unit * (std::abs(want.numbers[i]) + std::abs(part.numbers[i])) + typical;
                ASSERT_NEAR(got.numbers[i], want.numbers[i], tolerance) << i;
            }
        };
        for (size_t i = 0; i < fresh.grad_in.size(); ++i) {
            const double unit = fresh.grad_in[i].tensor().dtype == DType::bf16 ? 0x1p-8 : 0x1p-22;
            check(added.grad_in[i], trial_.prior_in()[i], fresh.grad_in[i], unit);
        }
        for (size_t i = 0; i < fresh.grad_weights.size(); ++i) {
            check(added.grad_weights[i], trial_.prior_weights()[i], fresh.grad_weights[i], 0x1p-22);
        }
    });
}

TEST_P(Agree, TeamSizeChangesNoBit) {
    on_every_isa([&] {
        const ForwardResult kept = trial_.forward(1);
        const BackwardResult gradient = trial_.backward(kept, 1);
        const std::vector<Value> tangents = trial_.tangent(kept, 1);
        for (const int threads : {2, 3}) {
            const ForwardResult other = trial_.forward(threads);
            EXPECT_TRUE(other.out == kept.out && other.saved == kept.saved) << threads;
            EXPECT_TRUE(trial_.backward(kept, threads) == gradient) << threads;
            EXPECT_TRUE(trial_.tangent(kept, threads) == tangents) << threads;
        }
    });
}

// The bytes of a value's rows from `row` on.
std::vector<std::byte> rows_from(const Value& value, int64_t row) {
    const Tensor tail = value.tensor().slice_rows(row, value.tensor().rows() - row);
    return {tail.as<std::byte>(), tail.as<std::byte>() + tail.rows() * tail.row_stride * dtype_bytes(tail.dtype)};
}

class AgreeOnDocuments : public Agree {};

TEST_P(AgreeOnDocuments, DocumentsDoNotSeeEachOther) {
    on_every_isa([&] {
        Trial changed(GetParam());
        const int64_t first = changed.change_first_document();
        const ForwardResult kept = trial_.forward(1), other = changed.forward(1);
        const auto same = [&](const std::vector<Value>& a, const std::vector<Value>& b) {
            for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(rows_from(a[i], first), rows_from(b[i], first)) << i;
        };
        same(kept.out, other.out);
        same(trial_.backward(kept, 1).grad_in, changed.backward(other, 1).grad_in);
        same(trial_.tangent(kept, 1), changed.tangent(other, 1));
    });
}

std::vector<Setting> with_documents(std::vector<Setting> settings) {
    std::erase_if(settings, [](const Setting& setting) { return !setting.op_case.documents; });
    return settings;
}

std::string name_of(const testing::TestParamInfo<Setting>& info) {
    std::string name = info.param.name();
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, Agree, testing::ValuesIn(some_settings()), name_of);
INSTANTIATE_TEST_SUITE_P(Ops, AgreeOnDocuments, testing::ValuesIn(with_documents(all_settings())), name_of);
INSTANTIATE_TEST_SUITE_P(SlowOps, Agree, testing::ValuesIn(all_settings()), name_of);

}  // namespace
}  // namespace windlass::agree
