// Pairs of answers: losses, gradients and steps of DPO and ORPO against TRL (tools/reference/preference_goldens.py),
// and under every placement.
#include "base/json.h"
#include "format/safetensors.h"
#include "model/preference_head.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/engine_fixture.h"
#include "tests/unit/run/placement_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kRows = 8, kPairLength = 24, kPairSteps = 20;

using Kind = PreferenceAttrs::Kind;

// What TRL made of one objective: "dpo", "orpo", or "orpo_prompt", whose first term is over prompts as well.
class PairGolden {
  public:
    explicit PairGolden(const std::string& name) : golden_("preference"), name_(name) {
        attrs = {.kind = name == "dpo" ? Kind::dpo : Kind::orpo,
                 .beta = of("beta").get<double>(),
                 .with_prompt = name == "orpo_prompt"};
        references = of("reference_losses").get<std::vector<double>>();
        const std::vector<int32_t> ids = golden_.ids(name_ + "/ids"), answer = golden_.ids(name_ + "/answer");
        std::vector<int32_t> targets(ids.size(), kIgnored);
        for (size_t i = 0; i + 1 < ids.size(); ++i)
            if ((i + 1) % kPairLength != 0 && answer[i + 1] != 0) targets[i] = ids[i + 1];
        for (size_t row = 0; row < kRows; ++row) {
            const size_t begin = row * kPairLength;
            answers.push_back(0);
            if (!attrs.with_prompt || row % 2 == 1) continue;
            for (size_t i = begin; targets[i] == kIgnored; ++i, ++answers.back()) targets[i] = ids[i + 1];
        }
        batch.emplace(ids, targets, kRows);
    }
    const Json& of(const char* key) const { return golden_.json->at(name_).at(key); }
    const Json& adamw() const { return golden_.json->at("adamw"); }
    std::vector<float> gradient(const std::string& param) const { return golden_.floats(name_ + "/grad/" + param); }

    PreferenceAttrs attrs;
    std::vector<double> references;  // row by row
    std::vector<int32_t> answers;    // where they begin
    std::optional<TestBatch> batch;

  private:
    Golden golden_;
    std::string name_;
};

EngineOptions options_for(const PairGolden& golden) {
    EngineOptions options;
    const Json& adamw = golden.adamw();
    options.method = {.beta1 = adamw.at("betas")[0],
                      .beta2 = adamw.at("betas")[1],
                      .epsilon = adamw.at("eps"),
                      .weight_decay = adamw.at("weight_decay"),
                      .max_grad_norm = adamw.at("clip_norm")};
    options.micro_batch_size = kRows;
    options.sequence_length = kPairLength;
    options.preference = golden.attrs;
    return options;
}

StepInput pair_input(const Engine& engine, const PairGolden& golden, int64_t step, double learning_rate) {
    StepInput input = step_input(engine, *golden.batch, step, learning_rate);
    int64_t row = 0;
    for (Batch& micro : input.micro) {
        micro.references = &golden.references[static_cast<size_t>(row)];
        if (golden.attrs.with_prompt) micro.answers = &golden.answers[static_cast<size_t>(row)];
        row += micro.rows;
    }
    input.params.head.loss_scale = 2.0 / kRows;
    input.token_losses = true;
    return input;
}

struct PairSteps {
    std::vector<double> losses, norms;
    std::vector<std::vector<double>> said;  // by the head, step by step
    std::string state;

    // Means over the pairs of a step: of the rows of preferred answers, or of the others.
    double reward(size_t step, size_t side) const {
        double sum = 0;
        for (size_t row = side; row < kRows; row += 2) sum += said[step][row * kPairLength + 1];
        return sum / (kRows / 2.0);
    }
    bool operator==(const PairSteps&) const = default;
};

PairSteps train_pairs(const PairGolden& golden, EngineOptions options, int64_t steps) {
    FaultFiles image("/image");
    options.store_path = "/image/store.wls";
    const auto engine = make_engine(image, Golden("llama").folder, options);
    PairSteps made;
    for (int64_t step = 1; step <= steps; ++step) {
        const StepReport report = engine->train_step(train_schedule(*engine, *golden.batch),
                                                     pair_input(*engine, golden, step, golden.adamw().at("lr")));
        engine->commit(step, run_state_of(step), report);
        made.losses.push_back(report.loss_sum / (kRows / 2));
        made.norms.push_back(report.grad_norm);
        made.said.push_back(report.token_losses);
    }
    made.state = state_bytes(*engine, image, "/image/snapshot.wls");
    return made;
}

class Preference : public testing::TestWithParam<std::string> {};

TEST_P(Preference, TwentyStepsMatchTrl) {
    const PairGolden golden(GetParam());
    const PairSteps steps = train_pairs(golden, options_for(golden), kPairSteps);
    for (size_t step = 0; step < kPairSteps; ++step) {
        // Sums of f32 losses in either program; of twenty steps each grows on the ones before.
        EXPECT_NEAR(steps.losses[step], golden.of("losses")[step].get<double>(), step == 0 ? 1e-5 : 1e-4) << step;
        const double norm = golden.of("norms")[step];
        EXPECT_NEAR(steps.norms[step], norm, 1e-4 * norm + 1e-6) << step;
        const Json& rewards = golden.of("rewards")[step];
        EXPECT_NEAR(steps.reward(step, 0), rewards.at("chosen").get<double>(), step == 0 ? 1e-5 : 1e-4) << step;
        EXPECT_NEAR(steps.reward(step, 1), rewards.at("rejected").get<double>(), step == 0 ? 1e-5 : 1e-4) << step;
    }
}

TEST_P(Preference, GradientsMatchTrl) {
    const PairGolden golden(GetParam());
    EngineOptions options = options_for(golden);
    // Plain descent: behind one step weights tell the gradient.
    options.method_name = "lomo";
    options.plan.order = MicroOrder::layer_first;
    options.plan.common.update = UpdateTime::at_once;
    options.method = {.max_grad_norm = 0};
    FaultFiles image("/image");
    const auto engine = make_engine(image, Golden("llama").folder, options);
    const auto before = all_masters(*engine);
    const StepReport report =
        engine->train_step(train_schedule(*engine, *golden.batch), pair_input(*engine, golden, 1, 1.0));
    engine->commit(1, run_state_of(1), report);
    const auto behind = all_masters(*engine);
    for (size_t param = 0; param < before.size(); ++param) {
        const std::vector<float> want = golden.gradient(engine->setup().model.params[param].name);
        ASSERT_EQ(want.size(), before[param].size());
        for (size_t i = 0; i < want.size(); ++i)
            ASSERT_NEAR(before[param][i] - behind[param][i], want[i], 1e-5) << engine->setup().model.params[param].name;
    }
}

// What evaluation makes of the same rows, on the host and in double.
TEST_P(Preference, RewardsMatchTrl) {
    const PairGolden golden(GetParam());
    FaultFiles image("/image");
    const auto engine = make_engine(image, Golden("llama").folder, options_for(golden));
    StepInput input = pair_input(*engine, golden, 1, 0);
    const Schedule& eval = *engine->setup().schedules.find("eval/24");
    const StepReport pairs = engine->evaluate(eval, input, true);
    EXPECT_NEAR(pairs.loss_sum / (kRows / 2), golden.of("losses")[0].get<double>(), 1e-5);
    // Rewards stand beside the losses, and add nothing to their sum.
    double loss = 0;
    for (size_t row = 0; row < kRows; row += 2) loss += pairs.token_losses[row * kPairLength];
    EXPECT_NEAR(pairs.loss_sum, loss, 1e-12);
    input.params.head.result = HeadResult::token_loss;
    const StepReport tokens = engine->evaluate(eval, input, true);
    double chosen = 0, rejected = 0;
    for (size_t row = 0; row < kRows; ++row) {
        double sum = 0, count = 0;
        for (size_t i = static_cast<size_t>(golden.answers[row]); i < kPairLength; ++i) {
            sum += tokens.token_losses[row * kPairLength + i];
            count += golden.batch->targets[row * kPairLength + i] != kIgnored;
        }
        const double reward =
            golden.attrs.beta * (GetParam() == "dpo" ? golden.references[row] - sum : -sum / count) / (kRows / 2.0);
        (row % 2 == 0 ? chosen : rejected) += reward;
    }
    EXPECT_NEAR(chosen, golden.of("rewards")[0].at("chosen").get<double>(), 1e-5);
    EXPECT_NEAR(rejected, golden.of("rewards")[0].at("rejected").get<double>(), 1e-5);
    EXPECT_NEAR(chosen - rejected, golden.of("rewards")[0].at("margins").get<double>(), 1e-5);
}

TEST_P(Preference, PlacementNeverChangesABit) {
    const PairGolden golden(GetParam());
    EngineOptions options = options_for(golden);
    options.micro_batch_size = 4;
    options.micro_batches = 2;
    const PairSteps reference = train_pairs(golden, options, 3);
    const std::vector<Plan> plans = all_plans();
    size_t tried = 0;
    for (size_t index = GetParam() == "dpo"    ? 0
                        : GetParam() == "orpo" ? 7
                                               : 11;
         index < plans.size(); index += is_sanitized() ? 23 : 5, ++tried) {
        options.plan = plans[index];
        options.emulation = {.jitter_seed = index, .jitter_ns = 20'000};
        EXPECT_TRUE(train_pairs(golden, options, 3) == reference) << describe_placement(plans[index]);
    }
    EXPECT_GT(tried, 2u);
}

INSTANTIATE_TEST_SUITE_P(Objectives, Preference, testing::Values("dpo", "orpo", "orpo_prompt"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace windlass
