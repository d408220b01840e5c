// Parameters that are trained otherwise than the rest: AdamW's formula with groups in double precision, and no bit that
// placement would change.
#include "method/param_groups.h"
#include "tests/sanitizer.h"

#include <cmath>

#include "tests/unit/model/model_runner.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// gpt2, whose table is tied: both of its names; norms that decay, positions and a layer's half that stay.
std::vector<ParamGroup> gpt2_groups() {
    return {{.match = "lm_head.weight", .learning_rate_scale = 0.25, .weight_decay = 0.05},
            {.match = "*.ln_*", .learning_rate_scale = 2, .weight_decay = 0.2},
            {.match = "*.wpe.weight", .train = false},
            {.match = "*.h.0.mlp.*", .train = false},
            {.match = "*.h.1.attn.*", .weight_decay = 0}};
}
// llama: nothing below the second layer is trained, and not all of what is above.
std::vector<ParamGroup> llama_groups() {
    return {{.match = "*embed_tokens*", .train = false},
            {.match = "*.layers.0.*", .train = false},
            {.match = "*.q_proj.*", .train = false},
            {.match = "*norm*", .learning_rate_scale = 3, .weight_decay = 0.3}};
}
std::vector<ParamGroup> groups_of(std::string_view model) {
    return model == "gpt2" ? gpt2_groups() : llama_groups();
}

// AdamW with one group for each parameter, as torch.optim.AdamW takes them, in double precision:
//     w <- w (1 - a d) - a (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + e), with the parameter's own a and d.
class GroupedAdamw {
  public:
    GroupedAdamw(const TrainedModel& model, const MethodOptions& options) : model_(model), options_(options) {
        for (const Param param : model.all_params())
            m_.emplace_back(static_cast<size_t>(param.numel())), v_.emplace_back(m_.back());
    }

    // The norm of what is trained.
    double norm(const ParamValues& gradients) const {
        double sum = 0;
        for (size_t p = 0; p < m_.size(); ++p)
            for (size_t i = 0; model_.training[p].trains && i < m_[p].size(); ++i)
                sum += double{gradients[p][i]} * gradients[p][i];
        return std::sqrt(sum);
    }
    // How far the step moves each weight.
    std::vector<std::vector<double>> step(int t, double rate, const ParamValues& weights,
                                          const ParamValues& gradients) {
        const double clip = std::min(1.0, options_.max_grad_norm / (norm(gradients) + 1e-6));
        const double bias1 = 1 - std::pow(options_.beta1, t), bias2 = 1 - std::pow(options_.beta2, t);
        std::vector<std::vector<double>> moved;
        for (size_t p = 0; p < m_.size(); ++p) {
            const Param param = model_.param(static_cast<int>(p));
            moved.emplace_back(m_[p].size(), 0.0);
            if (!param.trains()) continue;
            const double by_rule = param.spec.shape.rank() > 1 ? options_.weight_decay : 0;
            const double a = rate * param.training.learning_rate_scale,
                         d = param.training.weight_decay.value_or(by_rule);
            for (size_t i = 0; i < m_[p].size(); ++i) {
                const double g = clip * gradients[p][i];
                m_[p][i] = options_.beta1 * m_[p][i] + (1 - options_.beta1) * g;
                v_[p][i] = options_.beta2 * v_[p][i] + (1 - options_.beta2) * g * g;
                moved[p][i] =
                    -a * d * weights[p][i] - a * (m_[p][i] / bias1) / (std::sqrt(v_[p][i] / bias2) + options_.epsilon);
            }
        }
        return moved;
    }

  private:
    const TrainedModel& model_;
    const MethodOptions options_;
    std::vector<std::vector<double>> m_, v_;
};

double length(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

TokenBatch token_batch(const TestBatch& batch) {
    const std::vector<int64_t> tokens(batch.tokens.begin(), batch.tokens.end());
    const std::vector<int64_t> targets(batch.targets.begin(), batch.targets.end());
    const std::vector<int64_t> borders = {0, batch.sequence_length};
    return TokenBatch::make(batch.row_count, tokens, targets, borders);
}

class Groups : public testing::TestWithParam<const char*> {};

TEST_P(Groups, FollowAdamwsFormulaEachWithItsOwnRates) {
    const Golden golden(GetParam());
    EngineOptions options;
    options.method = {.beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1, .max_grad_norm = 1};
    options.groups = groups_of(GetParam());
    const auto engine = make_engine(real_files(), golden.folder, options);
    const TrainedModel& model = engine->setup().model;
    GroupedAdamw reference(model, options.method);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    ParamValues before = all_masters(*engine);
    for (int t = 1; t <= 6; ++t) {
        const TestBatch& batch = batches[static_cast<size_t>(t % 2)];
        const ParamValues gradients = ModelRunner(model, before, {}).gradients(token_batch(batch)).gradients;
        const StepReport report = train_on(*engine, batch, t, 1e-2);
        const double norm = reference.norm(gradients);
        EXPECT_NEAR(report.grad_norm, norm, 1e-5 * norm) << "step " << t;
        EXPECT_LT(report.clip_scale, 1);
        const auto expected = reference.step(t, 1e-2, before, gradients);
        const ParamValues after = all_masters(*engine);
        for (size_t p = 0; p < after.size(); ++p) {
            if (!model.training[p].trains) {
                EXPECT_EQ(after[p], before[p]) << model.params[p].name;
                continue;
            }
            std::vector<double> error;
            for (size_t i = 0; i < after[p].size(); ++i)
                error.push_back(double{after[p][i]} - before[p][i] - expected[p][i]);
            // Gradients that are nearly nothing are rounding, which Adam makes steps of; weights are f32.
            EXPECT_LT(length(error), 1e-3 * length(expected[p])) << model.params[p].name << " in step " << t;
        }
        before = after;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Groups, testing::Values("gpt2", "llama"));

// ---- one group of all is another run ----

struct Trained {
    std::vector<double> losses;
    std::vector<std::vector<float>> masters;
    bool operator==(const Trained&) const = default;
};

Trained trained(const std::string& method, const MethodOptions& options, const std::vector<ParamGroup>& groups,
                double rate = 1e-3) {
    const Golden golden("llama");
    EngineOptions engine_options = forward_only_options(method, options);
    if (method == "adamw") engine_options.plan = memory_plan();
    engine_options.groups = groups;
    const auto engine = make_engine(real_files(), golden.folder, engine_options);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    Trained result;
    for (int64_t step = 1; step <= 4; ++step)
        result.losses.push_back(train_on(*engine, batches[static_cast<size_t>(step % 2)], step, rate).loss_sum);
    result.masters = all_masters(*engine);
    return result;
}

struct GroupWay {
    const char* name;
    const char* method;
    MethodOptions options;
};
void PrintTo(const GroupWay& way, std::ostream* out) {
    *out << way.name;
}
const GroupWay kGroupWays[] = {
    {"adamw", "adamw", {}},
    {"zeroth_order", "zeroth_order", {.directions = 2}},
    {"momentum", "zeroth_order", {.moments = NoiseMoments::first, .replay_window = 3}},
    {"adam", "zeroth_order", {.moments = NoiseMoments::both, .replay_window = 3}},
    {"forward_gradient", "forward_gradient", {.directions = 2, .noise = NoiseKind::low_rank}},
};

class OneGroup : public testing::TestWithParam<GroupWay> {};

// Halves are exact, so that half of twice a rate is the rate, to the bit.
TEST_P(OneGroup, ScalesTheRate) {
    const auto& [name, method, options] = GetParam();
    const ParamGroup whole{.match = "*", .weight_decay = 0.25}, half{"*", true, 0.5, 0.25};
    const Trained reference = trained(method, options, {whole}, 1e-3);
    EXPECT_TRUE(reference == trained(method, options, {half}, 2e-3));
    EXPECT_FALSE(reference == trained(method, options, {half}, 1e-3));
}

TEST_P(OneGroup, DecaysWhatItMatchesAsTheRunWould) {
    const auto& [name, method, options] = GetParam();
    MethodOptions decaying = options;
    decaying.weight_decay = 0.25;
    const Trained by_rule = trained(method, decaying, {});
    EXPECT_TRUE(by_rule == trained(method, options, {{.match = "*norm*"}, {.match = "*", .weight_decay = 0.25}}));
    EXPECT_FALSE(by_rule == trained(method, options, {{.match = "*", .weight_decay = 0.25}})) << "norms too";
    EXPECT_FALSE(by_rule == trained(method, options, {}));
}

INSTANTIATE_TEST_SUITE_P(Ways, OneGroup, testing::ValuesIn(kGroupWays),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- placement ----

// Sanitizers look at how plans are executed, which a sample of them shows.
const size_t kGroupStride = is_sanitized() ? 12 : 3;

// What the plan keeps of each block, by what the block trains.
Plan keeping_some(const Plan& plan, const TrainedModel& model) {
    Plan some = mixed_plan(plan, model.blocks.size());
    for (size_t block = 0; block < model.blocks.size(); ++block) {
        std::vector<uint8_t> trains;
        for (const int param : model.blocks[block].params)
            trains.push_back(model.training[static_cast<size_t>(param)].trains);
        const size_t values =
            saved_values(*model.blocks[block].program, {.rows = 1, .sequence_length = 24}, trains).size();
        for (size_t value = 0; value < values; ++value) {
            const auto choice = static_cast<SaveChoice>((value + block) % 4);
            some.blocks[block].saved.push_back(choice == kKeepOnDisk && !plan.store ? SaveChoice::keep : choice);
        }
    }
    return some;
}

class GroupsPlaced : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(GroupsPlaced, AdamwNeverChangesABit) {
    const auto& [name, compute] = GetParam();
    const Golden golden(name);
    EngineOptions options{
        .compute = compute,
        .method = {.weight_decay = 0.1, .max_grad_norm = std::string_view(name) == "llama" ? 1.6 : 2.2},
        .micro_batch_size = 1,
        .micro_batches = 2};
    options.groups = groups_of(name);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const Outcome reference = run_steps(golden, batches, options);
    expect_some_clipped(reference);
    TrainedModel model = tiny_model(name);
    apply_param_groups(options.groups, "groups", model);
    const std::vector<Plan> plans = plans_on(DeviceKind::cpu);
    for (size_t index = compute == DType::f32 ? 0 : 1; index < plans.size(); index += kGroupStride) {
        const bool mixes = plans[index].order == MicroOrder::layer_first && index % 2 == 0;
        options.plan = mixes ? keeping_some(plans[index], model) : plans[index];
        options.plan.threads = 1 + static_cast<int>(index % 2);
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 100'000 : 0};
        const Outcome outcome = run_steps(golden, batches, options);
        EXPECT_TRUE(outcome == reference)
            << describe(options.plan) << (mixes ? ", mixed" : "") << ", losses " << (outcome.losses == reference.losses)
            << ", norms " << (outcome.norms == reference.norms) << ", state " << (outcome.state == reference.state);
    }
}

TEST_P(GroupsPlaced, ForwardOnlyMethodsNeverChangeABit) {
    const auto& [name, compute] = GetParam();
    const TempFolder folder;
    Golden golden(name);
    golden.folder = write_model(golden, DType::bf16, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size());
    size_t first = 0;
    for (const GroupWay& way : kGroupWays) {
        if (std::string_view(way.method) == "adamw") continue;
        EngineOptions options = forward_only_options(way.method, way.options);
        options.method.weight_decay = 0.1;
        options.groups = groups_of(name);
        options.compute = compute;
        const Outcome reference = run_steps(golden, batches, options);
        EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
        for (size_t index = first++; index < plans.size(); index += 2 * kGroupStride) {
            options.plan = plans[index];
            options.plan.threads = 1 + static_cast<int>(index % 2);
            options.plan.one_probe = index % 3 == 0;
            options.plan.writeback_steps = 1 + static_cast<int>(index % 3);
            const Outcome outcome = run_steps(golden, batches, options);
            EXPECT_TRUE(outcome == reference)
                << way.name << ": " << describe(options.plan) << ", losses " << (outcome.losses == reference.losses)
                << ", weights " << (outcome.state == reference.state);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, GroupsPlaced,
                         testing::Combine(testing::Values("gpt2", "llama"), testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}", std::get<0>(info.param),
                                                dtype_name(std::get<1>(info.param)));
                         });

// A layer that is frozen leaves its noise out: its weights stay, and what is found is of the others.
TEST(GroupsPlaced, FrozenWeightsStayThoseOfTheBase) {
    for (const char* method : {"adamw", "zeroth_order", "forward_gradient"}) {
        const Golden golden("llama");
        EngineOptions options = forward_only_options(method);
        if (std::string_view(method) == "adamw") options.plan = memory_plan();
        options.groups = llama_groups();
        const auto engine = make_engine(real_files(), golden.folder, options);
        const auto before = all_masters(*engine);
        for (int64_t step = 1; step <= 3; ++step)
            train_on(*engine, batches_of(golden)[static_cast<size_t>(step % 2)], step, 1e-3);
        const auto after = all_masters(*engine);
        const TrainedModel& model = engine->setup().model;
        for (size_t param = 0; param < model.params.size(); ++param)
            EXPECT_EQ(before[param] == after[param], !model.training[param].trains)
                << method << ": " << model.params[param].name;
    }
}

}  // namespace
}  // namespace windlass
