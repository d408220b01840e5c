// The key of a question to the planner: whatever changes the answer changes it, and nothing else does.
#include "session/plan_key.h"

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <set>

#include "schedule/kernel_rate.h"
#include "session/plan_cache.h"
#include "session/session.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

// A question that owns its parts.
struct Asked {
    TrainedModel model;
    Recipe recipe;
    MethodOptions options;
    Numerics numerics;
    Machine machine;
    PlanRequest request;
    std::optional<Rival> rival;
    GivenSizes given{.ram = true, .device = true, .disk = true};
    std::string build = "the build";

    std::optional<uint64_t> key() const {
        return plan_key({model, recipe, options, numerics, machine, request, rival}, given, build);
    }
};

struct KeyChange {
    const char* name;
    std::function<void(Asked&)> make;
};

// The first block of layers computes something else.
void change_program(Asked& asked) {
    Program program = *asked.model.blocks[1].program;
    program.nodes.pop_back();
    asked.model.blocks[1].program = std::make_shared<const Program>(std::move(program));
}

std::vector<KeyChange> changes_of_the_model() {
    return {{"shape",
             [](Asked& a) {
                 a.model.params[0].shape = {3, 5};
             }},
            {"type of the file", [](Asked& a) { a.model.params[0].file_dtype = DType::f8_e4m3; }},
            {"type that is kept", [](Asked& a) { a.model.storage[0].dtype = DType::nf4; }},
            {"store", [](Asked& a) { a.model.storage[0].store = StoreType::as_file; }},
            {"frozen", [](Asked& a) { a.model.training[0].trains = false; }},
            {"refreshed", [](Asked& a) { a.model.training[0].is_refreshed = true; }},
            {"merge", [](Asked& a) { a.model.perturb[0].merge = Merge::never; }},
            {"home", [](Asked& a) { a.model.params[0].block = 1; }},
            {"vocabulary", [](Asked& a) { a.model.vocab += 1; }},
            {"width", [](Asked& a) { a.model.hidden += 1; }},
            {"blocks", [](Asked& a) { a.model.blocks.pop_back(); }},
            {"program", change_program},
            {"type of what is frozen", [](Asked& a) { a.model.frozen_type = DType::f8_e4m3; }},
            {"adapter", [](Asked& a) { a.model.adapter = AdapterSettings{.kind = "lora", .rank = 4}; }},
            {"rank", [](Asked& a) { a.model.adapter = AdapterSettings{.kind = "lora", .rank = 8}; }}};
}

std::vector<KeyChange> changes_of_the_method() {
    return {{"method", [](Asked& a) { a.recipe.name = "another"; }},
            {"passes", [](Asked& a) { a.recipe.passes.clear(); }},
            {"state", [](Asked& a) { a.recipe.state.clear(); }},
            {"clipping", [](Asked& a) { a.options.max_grad_norm = 0; }},
            {"state format of the method", [](Asked& a) { a.options.state_format = StateFormat::int8; }},
            {"directions", [](Asked& a) { a.options.directions = 7; }},
            {"noise", [](Asked& a) { a.options.noise = NoiseKind::low_rank; }},
            {"rank of noise", [](Asked& a) { a.options.noise_rank = 9; }},
            {"window of noise", [](Asked& a) { a.options.noise_window = 9; }},
            {"both factors", [](Asked& a) { a.options.noise_keeps_left = true; }},
            {"layer drop", [](Asked& a) { a.options.layer_drop = 0.5; }},
            {"share", [](Asked& a) { a.options.sparse_share = 0.5; }},
            {"replay", [](Asked& a) { a.options.replay_window = 3; }},
            {"estimator", [](Asked& a) { a.options.estimator = ZoEstimator::fzoo; }},
            {"moments", [](Asked& a) { a.options.moments = NoiseMoments::both; }},
            {"masters", [](Asked& a) { a.options.split_masters = true; }},
            {"merge of the method", [](Asked& a) { a.options.merge = Merge::per_window; }},
            {"compute", [](Asked& a) { a.numerics.compute = DType::bf16; }},
            {"rows", [](Asked& a) { a.numerics.micro_batch_size += 1; }},
            {"micro-batches", [](Asked& a) { a.numerics.micro_batches += 1; }},
            {"length of the rows", [](Asked& a) { a.numerics.sequence_lengths.back() += 1; }},
            {"another length", [](Asked& a) { a.numerics.sequence_lengths.push_back(64); }},
            {"kernels", [](Asked& a) { a.numerics.kernel_path = "another"; }},
            {"state format", [](Asked& a) { a.numerics.state_format = StateFormat::int8; }},
            {"gradient format", [](Asked& a) { a.numerics.gradient_format = GradientFormat::bf16; }}};
}

std::vector<KeyChange> changes_of_the_machine() {
    return {{"products", [](Asked& a) { a.machine.gemm_f32_flops *= 2; }},
            {"reads", [](Asked& a) { a.machine.disk_read_bytes_per_s += 1; }},
            {"writes", [](Asked& a) { a.machine.disk_write_bytes_per_s += 1; }},
            {"memory", [](Asked& a) { a.machine.memory_bytes += 1; }},
            {"threads of the machine", [](Asked& a) { a.machine.threads += 1; }},
            {"update", [](Asked& a) { a.machine.updates["adamw 16"] = 1e9; }},
            {"link", [](Asked& a) { a.machine.link_up_bytes_per_s += 1; }}};
}

std::vector<KeyChange> changes_of_the_request() {
    return {{"policy", [](Asked& a) { a.request.policy = "in_memory"; }},
            {"recompute", [](Asked& a) { a.request.recompute = true; }},
            {"update time", [](Asked& a) { a.request.update_time = UpdateTime::after_backward; }},
            {"device", [](Asked& a) { a.request.device.kind = DeviceKind::fake; }},
            {"which device", [](Asked& a) { a.request.device.index = 1; }},
            {"its memory", [](Asked& a) { a.request.device.own_memory = true; }},
            {"threads", [](Asked& a) { a.request.threads += 1; }},
            {"ram", [](Asked& a) { a.request.budgets.ram += 1; }},
            {"disk", [](Asked& a) { a.request.budgets.disk += 1; }},
            {"exports", [](Asked& a) { a.request.budgets.exporter += 1; }},
            {"writes of a step", [](Asked& a) { a.request.budgets.step_disk_writes += 1; }},
            {"write-back", [](Asked& a) { a.request.writeback_steps += 1; }},
            {"clipping that is seen", [](Asked& a) { a.request.clip_frequency = 0.125; }},
            {"no schedule", [](Asked& a) { a.request.schedules.clear(); }},
            {"kind of a schedule", [](Asked& a) { a.request.schedules[0].kind = ScheduleRequest::Kind::eval; }},
            {"rows of a schedule", [](Asked& a) { a.request.schedules[0].rows += 1; }},
            {"length of a schedule", [](Asked& a) { a.request.schedules[0].sequence_length += 1; }},
            {"micro-batches of a schedule", [](Asked& a) { a.request.schedules[0].micro_batches += 1; }},
            {"cache", [](Asked& a) { a.request.schedules[0].cache_capacity += 1; }},
            {"iterations", [](Asked& a) { a.request.schedules[0].iterations += 1; }},
            {"answers", [](Asked& a) { a.request.schedules[0].writes_answers = true; }},
            {"start",
             [](Asked& a) {
                 a.request.start = FoundChoice{"in_memory", {}};
             }},
            {"rival",
             [](Asked& a) {
                 a.rival = Rival{"in_memory", {}, 1};
             }},
            {"slower rival",
             [](Asked& a) {
                 a.rival = Rival{"in_memory", {}, 2};
             }},
            {"build", [](Asked& a) { a.build = "another build"; }}};
}

class PlanKeyTest : public TrainTest {
  protected:
    Asked asked() {
        const Session session =
            prepare_session(files_, config("asked", {{"policy", "three_tier"}, {"ram", "8GiB"}, {"max_length", "32"}}),
                            std::nullopt, ConfigUse::plan, KeptPlans::ignored);
        return {session.model,   session.recipe, session.method_options, session.numerics(), session.machine,
                session.request, std::nullopt};
    }
};

TEST_F(PlanKeyTest, FollowsWhateverChangesAPlan) {
    const Asked base = asked();
    std::set<uint64_t> keys = {*base.key()};
    ASSERT_EQ(base.key(), Asked(base).key());
    for (const auto& changes :
         {changes_of_the_model(), changes_of_the_method(), changes_of_the_machine(), changes_of_the_request()}) {
        for (const KeyChange& change : changes) {
            Asked other = base;
            change.make(other);
            EXPECT_TRUE(keys.insert(*other.key()).second) << change.name;
        }
    }
}

TEST_F(PlanKeyTest, IsTheSameWhereThePlanIs) {
    const Asked base = asked();
    const std::vector<KeyChange> changes = {
        {"process", [](Asked& a) { a.request.budgets.process += 1; }},
        {"stop", [](Asked& a) { a.request.should_stop = [] { return false; }; }},
        {"beta", [](Asked& a) { a.options.beta1 = 0.5; }},
        {"decay", [](Asked& a) { a.options.weight_decay = 0.5; }},
        {"rate of a group", [](Asked& a) { a.model.training[0].learning_rate_scale = 2; }},
        {"memory of a device that has none", [](Asked& a) { a.request.budgets.device += 1; }},
        {"another model's kernel", [](Asked& a) { a.machine.kernels["linear forward f32 7x7 7"] = 1e9; }}};
    for (const KeyChange& change : changes) {
        Asked other = base;
        change.make(other);
        EXPECT_EQ(other.key(), base.key()) << change.name;
    }
}

// Of a block that is large enough for its kernels to be measured.
TEST_F(PlanKeyTest, FollowsRatesOfTheKernelsThatAreCalled) {
    Asked base = asked();
    Program program = *base.model.blocks[1].program;
    program.weights[0].shape = {512, 512};
    base.model.blocks[1].program = std::make_shared<const Program>(std::move(program));
    const OpSize size{.rows = base.numerics.micro_batch_size,
                      .sequence_length = base.numerics.sequence_lengths.back(),
                      .device = base.request.device.kind,
                      .compute = base.numerics.compute};
    const std::vector<KernelCase> cases = kernel_cases(base.model, base.recipe, {&size, 1});
    ASSERT_FALSE(cases.empty());
    Asked other = base;
    other.machine.kernels[cases[0].key] = 123e9;
    EXPECT_NE(other.key(), base.key());
}

TEST_F(PlanKeyTest, TakesSharesByTheirOrderOfMagnitude) {
    Asked base = asked();
    base.given = {};
    base.request.budgets.ram = base.request.budgets.disk = int64_t{7} << 30;
    for (int64_t Budgets::*const budget : {&Budgets::ram, &Budgets::disk}) {
        Asked other = base;
        other.request.budgets.*budget += 64 << 20;
        EXPECT_EQ(other.key(), base.key());
        other.request.budgets.*budget *= 2;
        EXPECT_NE(other.key(), base.key());
    }
}

TEST_F(PlanKeyTest, IsThatOfThisBuildAlone) {
    EXPECT_GE(build_id().size(), 16u);
    EXPECT_EQ(build_id().find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_EQ(plan_cache_of(files_, config("asked"), at("cache")).build, build_id());
    Asked unknown = asked();
    unknown.build = "";
    EXPECT_EQ(unknown.key(), std::nullopt);
}

}  // namespace
}  // namespace windlass
