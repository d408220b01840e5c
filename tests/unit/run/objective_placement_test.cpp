// Steps that are judged by an objective: the same bits wherever weights lie, and the objective is what it says.
#include <numeric>

#include "base/rng.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kExamples = 8, kCandidates = 2, kExampleLength = 24, kSteps = 4, kVocab = 96;

// Examples of two candidates: the same tokens, but for what is to be predicted at the end; the second has two targets.
TestBatch candidate_batch(uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<int32_t> tokens, targets(kExamples * kCandidates * kExampleLength, kIgnored);
    for (int64_t example = 0; example < kExamples; ++example) {
        std::vector<int32_t> prompt;
        for (int64_t i = 0; i < kExampleLength; ++i) prompt.push_back(static_cast<int32_t>(random.below(kVocab)));
        for (int64_t candidate = 0; candidate < kCandidates; ++candidate) {
            tokens.insert(tokens.end(), prompt.begin(), prompt.end());
            for (int64_t i = 0; i <= candidate; ++i)
                targets[tokens.size() - 1 - static_cast<size_t>(i)] = static_cast<int32_t>(random.below(kVocab));
        }
    }
    return TestBatch(std::move(tokens), std::move(targets), kExamples * kCandidates);
}

ObjectiveRows rows_of(Objective kind) {
    ObjectiveRows rows{.kind = kind};
    for (int64_t i = 0; i < kExamples; ++i) {
        ObjectiveExample example{.first_row = i * kCandidates, .row_count = kCandidates, .right = i % kCandidates};
        if (kind == Objective::exact_match) example = {.first_row = i * kCandidates};
        rows.examples.push_back(example);
    }
    return rows;
}

struct Judged {
    std::vector<double> values;
    std::vector<float> found;
    std::string state;
    bool operator==(const Judged&) const = default;
};

StepReport judged_step(Engine& engine, const TestBatch& batch, const ObjectiveRows& rows, int64_t step) {
    StepInput input = step_input(engine, batch, step, 1e-3);
    input.params.head.loss_scale = 1.0 / kExamples;
    input.objective = &rows;
    StepReport report = engine.train_step(train_schedule(engine, batch), input);
    engine.commit(step, run_state_of(step), report);
    return report;
}

Judged run_judged(const Golden& golden, EngineOptions options, Objective kind) {
    FaultFiles image("/image");
    options.store_path = "/image/store.wls";
    const auto engine = make_engine(image, golden.folder, options);
    const ObjectiveRows rows = rows_of(kind);
    Judged judged;
    for (int64_t step = 1; step <= kSteps; ++step) {
        const StepReport report = judged_step(*engine, candidate_batch(static_cast<uint64_t>(step)), rows, step);
        EXPECT_TRUE(report.applied);
        judged.values.push_back(report.loss_sum);
        judged.found.insert(judged.found.end(), report.params.perturb().scalars.begin(),
                            report.params.perturb().scalars.begin() + options.method.directions);
    }
    judged.state = state_bytes(*engine, image, "/image/snapshot.wls");
    return judged;
}

EngineOptions options_of(const std::string& method, double eps) {
    EngineOptions options = forward_only_options(method, {.zo_eps = eps, .directions = 3});
    options.micro_batch_size = 8;  // two micro-batches, and examples in both
    options.micro_batches = 2;
    return options;
}

class ObjectivePlacement : public testing::TestWithParam<std::tuple<const char*, Objective>> {};

TEST_P(ObjectivePlacement, NeverChangesABit) {
    const auto& [method, kind] = GetParam();
    const Golden golden("llama");
    EngineOptions options =
        options_of(method, 0.05);  // far enough that the best candidate is another one here and there
    const Judged reference = run_judged(golden, options, kind);
    EXPECT_TRUE(std::any_of(reference.found.begin(), reference.found.end(), [](float found) { return found != 0; }))
        << "no point differed from another: nothing was learnt";
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model("llama").blocks.size(), 2);
    for (size_t index = 0; index < plans.size(); index += 7) {
        options.plan = plans[index];
        options.plan.threads = 1 + static_cast<int>(index % 3);
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 2 == 0 ? 50'000 : 0};
        EXPECT_TRUE(run_judged(golden, options, kind) == reference) << describe(options.plan);
    }
}

INSTANTIATE_TEST_SUITE_P(Objectives, ObjectivePlacement,
                         testing::Values(std::tuple("zeroth_order", Objective::accuracy),
                                         std::tuple("zeroth_order", Objective::choice_loss),
                                         std::tuple("zeroth_order", Objective::exact_match),
                                         std::tuple("forward_gradient", Objective::choice_loss)),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param), name_of(std::get<1>(info.param)));
                         });

// At a point 1e-12 away from the weights a step sees what an evaluation sees.
TEST(ObjectiveOfAStep, IsWhatEvaluatingTheRowsGives) {
    const Golden golden("llama");
    EngineOptions options = options_of("zeroth_order", 1e-12);
    options.method.directions = 1;
    options.micro_batch_size = kExamples * kCandidates;
    options.micro_batches = 1;
    FaultFiles image("/image");
    const auto engine = make_engine(image, golden.folder, options);
    const TestBatch batch = candidate_batch(1);
    const Schedule* const schedule = engine->setup().schedules.find("eval/24");
    StepInput input{.micro = {batch.rows(0, kExamples * kCandidates)}};
    const auto row_sums = [&] {
        const StepReport report = engine->evaluate(*schedule, input, true);
        std::vector<double> sums;
        for (auto token = report.token_losses.begin(); token != report.token_losses.end(); token += kExampleLength)
            sums.push_back(std::accumulate(token, token + kExampleLength, 0.0));
        return sums;
    };
    const std::vector<double> losses = row_sums();
    input.params.head.result = HeadResult::is_wrong;
    const std::vector<double> misses = row_sums();
    int64_t wrong = 0, missed = 0;
    for (int64_t i = 0; i < kExamples; ++i) {
        const size_t row = static_cast<size_t>(i * kCandidates);
        const bool first_is_best = losses[row] <= losses[row + 1] / 2;
        wrong += first_is_best != (i % kCandidates == 0);
        missed += misses[row] > 0;
    }
    EXPECT_EQ(judged_step(*engine, batch, rows_of(Objective::accuracy), 1).loss_sum, static_cast<double>(wrong));
    EXPECT_EQ(judged_step(*engine, batch, rows_of(Objective::exact_match), 2).loss_sum, static_cast<double>(missed));
}

// The two-point estimate of choice_loss goes to its derivative.
TEST(ObjectiveOfAStep, ChoiceLossHasTheDerivativeThatTangentsGive) {
    const Golden golden("llama");
    const ObjectiveRows rows = rows_of(Objective::choice_loss);
    std::vector<std::vector<float>> found;
    for (const char* method : {"zeroth_order", "forward_gradient"}) {
        const EngineOptions options = options_of(method, 1e-3);
        FaultFiles image("/image");
        const auto engine = make_engine(image, golden.folder, options);
        const StepReport report = judged_step(*engine, candidate_batch(1), rows, 1);
        found.emplace_back(report.params.perturb().scalars.begin(), report.params.perturb().scalars.begin() + 3);
    }
    for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(found[0][i], found[1][i], 0.01 * std::abs(found[1][i]) + 0.01)  // of order 1; eps^2 and f32 sums
            << "direction " << i;
}

}  // namespace
}  // namespace windlass
