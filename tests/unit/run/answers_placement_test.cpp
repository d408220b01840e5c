// Steps that are judged by answers that they write: the same bits wherever weights lie, and what decoding writes.
#include <gmock/gmock.h>

#include <cmath>

#include "base/rng.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kAskedRows = 8, kAskedLength = 24, kNewTokens = 6, kAnswerSteps = 4;
constexpr int64_t kAnswerVocab = 90;  // of the table's 96

// Prompts of 8 to 18 tokens and random guesses behind them.
TestBatch prompts(uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<int32_t> tokens, targets(kAskedRows * kAskedLength, kIgnored);
    for (int64_t i = 0; i < kAskedRows * kAskedLength; ++i)
        tokens.push_back(static_cast<int32_t>(random.below(kAnswerVocab)));
    for (int64_t row = 0; row < kAskedRows; ++row) {
        const auto begin = static_cast<size_t>(row * kAskedLength + 8) + random.below(11);
        for (size_t i = begin; i < begin + kNewTokens; ++i) targets[i - 1] = tokens[i];
    }
    return TestBatch(std::move(tokens), std::move(targets), kAskedRows);
}

// Ends at two ids, stops behind a few others; the loss is the share of odd tokens, by their place.
ObjectiveRows rules() {
    ObjectiveRows rows{.kind = Objective::f1};
    for (int64_t row = 0; row < kAskedRows; ++row) rows.examples.push_back({.first_row = row});
    rows.answers = AnswerRules{.max_new_tokens = kNewTokens,
                               .id_count = kAnswerVocab,
                               .end_ids = {5, 6},
                               .is_whole = [](std::span<const int32_t> ids) { return ids.back() % 29 == 0; },
                               .loss =
                                   [](int64_t, std::span<const int32_t> ids) {
                                       double loss = 0;
                                       for (size_t i = 0; i < ids.size(); ++i)
                                           loss += ids[i] % 2 * std::pow(0.5, i + 1);
                                       return loss;
                                   }};
    return rows;
}

StepReport written_step(Engine& engine, const TestBatch& batch, const ObjectiveRows& rows, int64_t step) {
    StepInput input = step_input(engine, batch, step, 1e-2);
    input.params.head.loss_scale = 1.0 / kAskedRows;
    input.objective = &rows;
    StepReport report = engine.train_step(train_schedule(engine, batch), input);
    engine.commit(step, run_state_of(step), report);
    return report;
}

struct JudgedAnswers {
    std::vector<double> values;
    std::vector<int64_t> rounds;
    std::vector<float> found;
    std::string state;
    bool operator==(const JudgedAnswers&) const = default;
};

JudgedAnswers run_judged(const Golden& golden, EngineOptions options) {
    FaultFiles image("/image");
    options.store_path = "/image/store.wls";
    const auto engine = make_engine(image, golden.folder, options);
    const ObjectiveRows rows = rules();
    JudgedAnswers judged;
    for (int64_t step = 1; step <= kAnswerSteps; ++step) {
        const StepReport report = written_step(*engine, prompts(static_cast<uint64_t>(step)), rows, step);
        EXPECT_TRUE(report.applied);
        judged.values.push_back(report.loss_sum);
        judged.rounds.push_back(report.rounds);
        judged.found.insert(judged.found.end(), report.params.perturb().scalars.begin(),
                            report.params.perturb().scalars.begin() + options.method.directions);
    }
    judged.state = state_bytes(*engine, image, "/image/snapshot.wls");
    return judged;
}

EngineOptions options_of(const MethodOptions& method) {
    EngineOptions options = forward_only_options("zeroth_order", method);
    options.writes_answers = true;
    options.micro_batch_size = 4;
    options.micro_batches = 2;
    return options;
}

class AnswersPlacement : public testing::TestWithParam<std::tuple<const char*, MethodOptions, DType>> {};

TEST_P(AnswersPlacement, NeverChangesABit) {
    const auto& [name, method, compute] = GetParam();
    const Golden golden(name);
    EngineOptions options = options_of(method);
    options.compute = compute;
    const JudgedAnswers reference = run_judged(golden, options);
    EXPECT_TRUE(std::any_of(reference.found.begin(), reference.found.end(), [](float found) { return found != 0; }))
        << "no point differed from another: nothing was learnt";
    EXPECT_GT(*std::max_element(reference.rounds.begin(), reference.rounds.end()), 2);
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size(), 2);
    for (size_t index = std::string_view(name) == "gpt2" ? 5 : 1; index < plans.size(); index += 8) {
        options.plan = plans[index];
        options.plan.threads = 1 + static_cast<int>(index % 3);
        options.plan.one_probe = index % 2 == 1;
        options.plan.writeback_steps = 1 + static_cast<int>((index / 8 + 1) % 3);
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 2 == 0 ? 50'000 : 0};
        EXPECT_TRUE(run_judged(golden, options) == reference) << describe(options.plan);
    }
}

// Far enough apart that points write different answers. The second reads the weights themselves too, and looks back.
INSTANTIATE_TEST_SUITE_P(
    Methods, AnswersPlacement,
    testing::Values(std::tuple("llama", MethodOptions{.weight_decay = 0.1, .zo_eps = 0.1, .directions = 2}, DType::f32),
                    std::tuple("gpt2",
                               MethodOptions{.zo_eps = 0.1,
                                             .directions = 3,
                                             .noise = NoiseKind::low_rank,
                                             .estimator = ZoEstimator::one_sided,
                                             .moments = NoiseMoments::first,
                                             .replay_window = 2},
                               DType::bf16)),
    [](const auto& info) { return std::get<0>(info.param); });

// ---- what is written ----

// By evaluating, a token at a time, with nothing behind it.
std::vector<std::vector<int32_t>> decoded(Engine& engine, TestBatch batch) {
    const ObjectiveRows rules_ = rules();
    const AnswerRules& rules = *rules_.answers;
    std::vector<std::vector<int32_t>> answers(kAskedRows);
    std::vector<size_t> begins;
    for (int64_t row = 0; row < kAskedRows; ++row) {
        const auto first = batch.targets.begin() + row * kAskedLength;
        const auto target = std::find_if(first, first + kAskedLength, [](int32_t each) { return each != kIgnored; });
        begins.push_back(static_cast<size_t>(target - batch.targets.begin() + 1));
        std::fill_n(batch.tokens.begin() + static_cast<int64_t>(begins.back()), kNewTokens, 1);
    }
    for (size_t i = 0; i < kNewTokens; ++i) {
        StepInput input{.micro = {batch.rows(0, kAskedRows)}};
        input.params.head.result = HeadResult::argmax;
        input.params.head.id_count = kAnswerVocab;
        const StepReport report = engine.evaluate(*engine.setup().schedules.find("eval/24"), input, true);
        for (size_t row = 0; row < kAskedRows; ++row) {
            std::vector<int32_t>& ids = answers[row];
            const auto id = static_cast<int32_t>(report.token_losses[begins[row] + i - 1]);
            const bool is_end = std::count(rules.end_ids.begin(), rules.end_ids.end(), id) > 0;
            if (ids.size() < i || is_end || (i > 0 && rules.is_whole(ids))) continue;
            ids.push_back(id);
            batch.tokens[begins[row] + i] = id;
        }
    }
    return answers;
}

// Both points of a step lie 1e-12 from the weights: they write what the weights write, whatever was guessed.
TEST(AnswersOfAStep, AreWhatDecodingWrites) {
    const Golden golden("llama");
    EngineOptions options = options_of({.zo_eps = 1e-12});
    options.micro_batch_size = kAskedRows;
    options.micro_batches = 1;
    FaultFiles image("/image");
    const auto engine = make_engine(image, golden.folder, options);
    TestBatch batch = prompts(1);
    const std::vector<std::vector<int32_t>> expected = decoded(*engine, batch);
    std::vector<std::vector<std::vector<int32_t>>> written(kAskedRows);
    ObjectiveRows rows = rules();
    rows.answers->loss = [&](int64_t row, std::span<const int32_t> ids) {
        written[static_cast<size_t>(row)].emplace_back(ids.begin(), ids.end());
        return 0.5;
    };
    const StepReport guessed_wrong = written_step(*engine, batch, rows, 1);
    EXPECT_EQ(guessed_wrong.loss_sum, 0.5 * kAskedRows);
    for (size_t row = 0; row < kAskedRows; ++row)
        EXPECT_THAT(written[row], testing::ElementsAre(expected[row], expected[row])) << "both points, row " << row;
    EXPECT_GT(guessed_wrong.rounds, 1);
    EXPECT_LE(guessed_wrong.rounds, kNewTokens);
    EXPECT_NE(expected[0], expected[1]);
    // With the answers themselves as guesses nothing is left for a second round.
    for (size_t row = 0; row < kAskedRows; ++row) {
        const auto first = batch.targets.begin() + static_cast<int64_t>(row * kAskedLength);
        const auto target = std::find_if(first, first + kAskedLength, [](int32_t each) { return each != kIgnored; });
        std::copy(expected[row].begin(), expected[row].end(),
                  batch.tokens.begin() + (target - batch.targets.begin()) + 1);
    }
    EXPECT_EQ(written_step(*engine, batch, rows, 2).rounds, 1);
}

// So far from the weights that nothing is a number any more.
TEST(AnswersOfAStep, APointThatGivesNoNumbersTeachesNothing) {
    const Golden golden("llama");
    const auto engine = make_engine(real_files(), golden.folder, options_of({.zo_eps = 1e39}));
    const StepReport report = written_step(*engine, prompts(1), rules(), 1);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.rounds, 1);
}

}  // namespace
}  // namespace windlass
