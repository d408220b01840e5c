// What it costs to fit a projector to a gradient, and what it brings: refresh_bench [rows cols d r] [--sweep]
//
// The gradient is made: a sum of products of vectors whose weights fall as 1 / i, and noise of the same norm that
// another half of the rows does not share. Printed are the seconds of a measurement of the bias, of an iteration, of
// moments carried over and of a matrix written back, the arithmetic beside them, and the bias on either half. --sweep:
// other rates and counts.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/rng.h"
#include "measure.h"
#include "method/projector/projector.h"

namespace windlass {
namespace {

struct Sizes {
    int64_t rows = 2048, cols = 2048, d = 1024, r = 8;
};

struct Halves {
    std::vector<float> fit, judge;
};

Halves made_gradients(const Sizes& of) {
    constexpr int64_t kTerms = 48;
    Random random(1, RandomStream::test);
    std::vector<float> left(static_cast<size_t>(of.rows * kTerms)), right(static_cast<size_t>(of.cols * kTerms));
    for (float& each : left) each = random.normal();
    for (float& each : right) each = random.normal();
    double weight = 0;
    for (int64_t t = 0; t < kTerms; ++t) weight += std::pow(static_cast<double>(t + 1), -2);
    const auto noise = static_cast<float>(std::sqrt(weight));
    Halves made;
    for (std::vector<float>* half : {&made.fit, &made.judge}) half->resize(static_cast<size_t>(of.rows * of.cols));
    for (int64_t i = 0; i < of.rows; ++i)
        for (int64_t j = 0; j < of.cols; ++j) {
            float sum = 0;
            for (int64_t t = 0; t < kTerms; ++t)
                sum += left[static_cast<size_t>(i * kTerms + t)] * right[static_cast<size_t>(j * kTerms + t)] /
                       static_cast<float>(t + 1);
            const auto at = static_cast<size_t>(i * of.cols + j);
            // Uniform: four times as quick to draw.
            const auto draw = [&] { return noise * std::sqrt(12.0f) * (random.uniform() - 0.5f); };
            made.fit[at] = sum + draw();
            made.judge[at] = sum + draw();
        }
    return made;
}

struct Values {
    std::vector<float> left, right;
    ProjectorValues view() { return {left, right}; }
};

Values random_signs(const Sizes& of) {
    Values made;
    Random random(2, RandomStream::test);
    const float size = 1 / std::sqrt(static_cast<float>(of.r));
    for (int64_t i = 0; i < of.rows * of.r; ++i) made.left.push_back(random.below(2) == 0 ? size : -size);
    for (int64_t i = 0; i < of.cols * of.r; ++i) made.right.push_back(random.below(2) == 0 ? size : -size);
    return made;
}

// The whole of one matrix, part by part.
void print_refresh(const ProjectorContext& context, const Halves& gradients, Values& values) {
    const ProjectorShape& shape = context.shape;
    Values changed = values;
    ProjectorRefit refit;
    const ProjectorLearning learning{.iterations = 10, .rate = 0.2};
    const double refitted = seconds_of([&] {
        refit = refit_projector(context, {gradients.fit, gradients.judge}, learning, values.view(), changed.view());
    });
    const auto subspace = static_cast<size_t>(shape.left_cols() * shape.right_cols());
    std::vector<float> first(subspace, 1e-3f), second(subspace, 1e-6f), s(subspace, 1e-3f);
    std::vector<bf16> w(gradients.fit.size());
    const double carried = median_seconds(3, [&] {
        carry_moments(context, values.view(), changed.view(), {first, second});
    });
    const double written = median_seconds(3, [&] {
        write_back(context, values.view(), s, {.key = 1, .step = 1}, DType::bf16, std::as_writable_bytes(std::span(w)));
    });
    std::printf(
        "refit of %d iterations %.1f ms, %s (%.3f, before %.3f); moments carried %.1f ms; written back %.1f ms\n",
        refit.iterations, 1e3 * refitted, refit.accepted ? "accepted" : "refused", refit.after, refit.before,
        1e3 * carried, 1e3 * written);
}

void print(const Sizes& of, bool sweep) {
    const int threads = static_cast<int>(std::thread::hardware_concurrency());
    const auto left = sparse_positions({of.rows, std::min(of.rows, of.d), of.r, 3});
    const auto right = sparse_positions({of.cols, std::min(of.cols, of.d), of.r, 4});
    const ProjectorShape shape{left.get(), right.get()};
    HugeBuffer scratch(projector_scratch_bytes(shape, threads), true);
    Team team(threads);
    const ProjectorContext context{shape, {scratch.data(), static_cast<size_t>(scratch.size())}, team};
    const Halves gradients = made_gradients(of);
    Values values = random_signs(of);
    std::printf("[%ld, %ld], d %ld, r %ld, %d threads, scratch %.1f MiB\n", of.rows, of.cols, of.d, of.r, threads,
                static_cast<double>(scratch.size()) / (1 << 20));
    ProjectorBias bias;
    const double measured = median_seconds(3, [&] { bias = projector_bias(context, gradients.fit, values.view()); });
    const auto judged = [&](Values& of_values) {
        return projector_bias(context, gradients.judge, of_values.view()).relative();
    };
    std::printf("random: bias %.3f, on the other half %.3f; measured in %.1f ms\n", bias.relative(), judged(values),
                1e3 * measured);
    rescale_projector(values.view(), bias.best_scale());
    std::printf("rescaled by %.3f: %.3f on the other half\n", bias.best_scale(), judged(values));
    for (const double rate : sweep ? std::vector{0.05, 0.1, 0.2, 0.3, 0.5} : std::vector{0.2})
        for (const int iterations : sweep ? std::vector{5, 10, 20, 40} : std::vector{10}) {
            Values learned = values;
            ProjectorLearned got;
            const double seconds = seconds_of([&] {
                got = learn_projector(context, gradients.fit, {.iterations = iterations, .rate = rate, .patience = 100},
                                      learned.view());
            });
            const double flops = 10.0 * static_cast<double>(of.rows * of.cols * of.r);
            std::printf("rate %.2f: %d iterations, %.1f ms each (%.0f GFLOP/s): bias %.3f, on the other half %.3f\n",
                        rate, got.iterations, 1e3 * seconds / iterations, flops * iterations / seconds / 1e9,
                        got.relative, judged(learned));
        }
    print_refresh(context, gradients, values);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    windlass::Sizes sizes;
    int64_t* const fields[] = {&sizes.rows, &sizes.cols, &sizes.d, &sizes.r};
    bool sweep = false;
    for (int i = 1, field = 0; i < argc; ++i) {
        if (std::strcmp(argv[i], "--sweep") == 0)
            sweep = true;
        else if (field < 4)
            *fields[field++] = std::atoll(argv[i]);
    }
    windlass::print(sizes, sweep);
}
