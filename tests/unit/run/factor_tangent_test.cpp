// Tangents of directions that come as factors are those of the same directions in full, in every family.
#include <cmath>

#include "method/forward_only/materialize.h"
#include "tests/unit/model/model_runner.h"
#include "tests/unit/run/forward_only_fixture.h"

namespace windlass {
namespace {

constexpr uint64_t kSeed = 7;  // of the fixture's engines
constexpr int kDirections = 3;
constexpr MethodOptions kOptions{
    .directions = kDirections, .noise = NoiseKind::low_rank, .noise_rank = 2, .noise_window = 4};

// The directions of a step in full, one after the other in each parameter's values.
ParamValues modes_of(const TrainedModel& model, int64_t step) {
    const auto stream = make_stream(DeviceKind::cpu, 1);
    const Noise noise = noise_of(kOptions);
    const std::vector<int64_t> starts = global_offsets(model);
    ParamValues directions;
    for (size_t param = 0; param < model.params.size(); ++param) {
        const ParamSpec& spec = model.params[param];
        const NoiseRun run = noise_run(noise, kSeed, spec, starts[param], 0, spec.numel());
        std::vector<float>& all = directions.emplace_back(static_cast<size_t>(kDirections * spec.numel()));
        for (int index = 0; index < kDirections; ++index)
            write_direction(run, noise_term(noise, run, step, index, 1), WeightType::f32,
                            all.data() + index * spec.numel(), *stream);
    }
    return directions;
}

class FactorTangents : public testing::TestWithParam<std::string> {};

TEST_P(FactorTangents, AreThoseOfTheirProducts) {
    const Golden golden(GetParam());
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
    const auto engine = make_engine(real_files(), golden.folder, forward_only_options("forward_gradient", kOptions));
    const TrainedModel& model = engine->setup().model;
    const std::vector<int64_t> tokens(batch.tokens.begin(), batch.tokens.end()),
        targets(batch.targets.begin(), batch.targets.end()), borders = {0, batch.sequence_length};
    const TokenBatch same = TokenBatch::make(2, tokens, targets, borders);
    ModelRunner runner(model, all_masters(*engine), {});
    double error = 0, size = 0;
    for (const int64_t step : {1, 3}) {
        const StepReport report = train_on(*engine, batch, step, /*learning_rate=*/0);
        const std::vector<float> tangents = runner.loss_tangent(same, modes_of(model, step), kDirections).tangents;
        for (int index = 0; index < kDirections; ++index) {
            const auto first = tangents.begin() + index * std::ssize(tokens);
            double derivative = 0;
            for (auto at = first; at != first + std::ssize(tokens); ++at) derivative += double{*at};
            derivative /= static_cast<double>(batch.target_count());
            error += std::pow(report.params.perturb().scalars[static_cast<size_t>(index)] - derivative, 2);
            size += derivative * derivative;
        }
    }
    // The same products of f32 in another order, some hundred roundings of 6e-8 deep, whose terms partly cancel.
    EXPECT_GT(size, 0);
    EXPECT_LT(std::sqrt(error), 2e-5 * std::sqrt(size));
}

INSTANTIATE_TEST_SUITE_P(Goldens, FactorTangents, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace windlass
