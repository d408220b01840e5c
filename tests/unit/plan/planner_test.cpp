// Budgets in, a plan that fits them out, or a refusal that helps.
#include "plan/planner.h"

#include <regex>

#include "base/rng.h"
#include "base/units.h"
#include "model/sublayers.h"
#include "schedule/layout.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

Machine some_machine() {
    return {.gemm_bf16_flops = 1e12,
            .gemm_f32_flops = 5e11,
            .memory_bytes_per_s = 2e10,
            .disk_read_bytes_per_s = 3e9,
            .disk_write_bytes_per_s = 1e9};
}

const TrainedModel& model() {
    static const TrainedModel made = tiny_model("llama");
    return made;
}

Planned plan(const Budgets& budgets, const std::string& policy = "", std::optional<bool> recompute = std::nullopt,
             bool own_memory = false) {
    const Numerics numerics = numerics_of(DType::f32, 2, 32, 4);
    const PlanRequest request{.policy = policy,
                              .recompute = recompute,
                              .device = {.own_memory = own_memory},
                              .budgets = budgets,
                              .schedules = {train_request(numerics), {ScheduleRequest::Kind::eval, 2, 32, 1}}};
    return make_plan(model(), make_recipe("adamw", {}), numerics, some_machine(), request);
}

std::string refusal(const Budgets& budgets, const std::string& policy = "") {
    try {
        plan(budgets, policy);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::no_fit);
        return error.what();
    }
    ADD_FAILURE() << "fits";
    return "";
}

// What a hint says behind a flag; what there is already where it says nothing.
int64_t advised(const std::string& text, const std::string& flag, int64_t otherwise) {
    std::smatch found;
    const bool says = std::regex_search(text, found, std::regex(flag + " ([0-9.]+\\w+)"));
    return says ? parse_bytes(found[1].str(), "hint") : otherwise;
}

// The least memory that a policy needs: a plan fits into it, and none into a byte less. Found once, from what a refusal
// advises downward, in a few searches.
int64_t least_memory(const std::string& policy) {
    static std::map<std::string, int64_t> known;
    if (known.contains(policy)) return known[policy];
    int64_t least = advised(refusal({.ram = 1000, .disk = kPlenty}, policy), "--ram", 0);
    try {
        for (;;) least = plan({.ram = least - 1, .disk = kPlenty}, policy).memory_bytes;
    } catch (const UserError&) {
        return known[policy] = least;
    }
}

TEST(Planner, KeepsEverythingInMemoryWhereItFits) {
    const Planned planned = plan({.ram = kPlenty, .disk = kPlenty});
    EXPECT_EQ(planned.plan.policy, "in_memory");
    EXPECT_FALSE(planned.plan.store);
    EXPECT_FALSE(planned.plan.any_recompute());
    EXPECT_EQ(planned.disk_bytes, 0);
    EXPECT_NE(planned.schedules.find("train/32"), nullptr);
    EXPECT_NE(planned.schedules.find("eval/32"), nullptr);
}

TEST(Planner, UpdatesWhenItIsAskedTo) {
    const Numerics numerics = numerics_of(DType::f32, 2, 32, 1);
    PlanRequest request{.budgets = {.ram = kPlenty, .disk = kPlenty}, .schedules = {train_request(numerics)}};
    const auto planned = [&](const std::string& policy, UpdateTime time) {
        request.policy = policy;
        request.update_time = time;
        return make_plan(model(), make_recipe("adamw", {}), numerics, some_machine(), request).plan;
    };
    EXPECT_EQ(planned("three_tier", UpdateTime::after_backward).of(0).update, UpdateTime::after_backward);
    EXPECT_EQ(planned("three_tier", UpdateTime::in_backward).of(0).update, UpdateTime::in_backward);
    EXPECT_EQ(planned("three_tier", UpdateTime::next_forward).of(0).update, UpdateTime::next_forward);
    EXPECT_EQ(planned("in_memory", UpdateTime::next_forward).of(0).update, UpdateTime::next_forward);
    EXPECT_EQ(planned("in_memory", UpdateTime::in_backward).of(0).update, UpdateTime::in_backward);
    EXPECT_EQ(planned("", UpdateTime::in_backward).of(0).update, UpdateTime::in_backward);
}

// Without a store a guess costs memory for what it overwrites, time to copy it, and where it was wrong to copy it back
// and update again. 28 bytes of traffic an element are an update's; what is kept is read and written.
TEST(Planner, PricesAGuessThatIsKeptInMemory) {
    const Numerics numerics = numerics_of(DType::f32, 2, 32, 1);
    const Recipe recipe = make_recipe("adamw", {});
    const PlanRequest request{.budgets = {.ram = kPlenty}, .schedules = {train_request(numerics)}};
    const auto planned = [&](UpdateTime update, const Machine& machine = some_machine()) {
        return evaluate_plan(model(), recipe, numerics, machine, request,
                             {.policy = "in_memory", .common = {.update = update}});
    };
    const Planned waits = planned(UpdateTime::after_backward), speculates = planned(UpdateTime::in_backward);
    int64_t kept = 0;
    for (const Param param : model().all_params()) kept += kept_bytes(recipe, param, 0, param.numel());
    EXPECT_EQ(speculates.memory_bytes - waits.memory_bytes, kept);
    const double rate = some_machine().memory_bytes_per_s;
    EXPECT_NEAR(speculates.step.seconds - waits.step.seconds, 2.0 * static_cast<double>(kept) / rate, 1e-9);
    const auto elements = static_cast<double>(model().param_count());
    Machine slower = some_machine();  // what calls take beside their traffic is the same there
    slower.memory_bytes_per_s = rate / 2;
    EXPECT_NEAR(planned(UpdateTime::in_backward, slower).redo_seconds - speculates.redo_seconds,
                (elements * recipe.update()->bytes_per_element + 2.0 * static_cast<double>(kept)) / rate, 1e-9);
    EXPECT_EQ(waits.redo_seconds, 0);
    int64_t shown = 0;
    for (const PlacementRow& row : speculates.placement) {
        if (row.tag == "versions kept for wrong speculations") shown = row.memory_bytes;
    }
    EXPECT_EQ(shown, kept);
}

TEST(Planner, CountsAnExportBesideTheStepsWhereThereIsAStore) {
    if (is_second_run()) GTEST_SKIP() << "four searches; UsesTheDiskWhereMemoryIsShort has the like";
    const auto bytes = [](const std::string& policy, int64_t exporter) {
        return plan({.ram = kPlenty, .disk = kPlenty, .exporter = exporter}, policy).memory_bytes;
    };
    EXPECT_EQ(bytes("three_tier", 1000) - bytes("three_tier", 0), 1000);
    EXPECT_EQ(bytes("in_memory", 1000) - bytes("in_memory", 0), 0);
}

TEST(Planner, RecomputesBeforeItUsesTheDisk) {
    const int64_t all = plan({.ram = kPlenty}).memory_bytes;
    const Planned planned = plan({.ram = all - 1, .disk = kPlenty});
    EXPECT_EQ(planned.plan.policy, "in_memory");
    EXPECT_TRUE(planned.plan.any_recompute());
    EXPECT_LT(planned.memory_bytes, all);
}

TEST(Planner, UsesTheDiskWhereMemoryIsShort) {
    const int64_t in_memory = least_memory("in_memory"), three_tier = least_memory("three_tier");
    ASSERT_LT(three_tier, in_memory);
    const Planned planned = plan({.ram = in_memory - 1, .disk = kPlenty});
    EXPECT_EQ(planned.plan.policy, "three_tier");
    EXPECT_TRUE(planned.plan.store);
    EXPECT_GT(planned.disk_bytes, 0);
    EXPECT_THAT(refusal({.ram = in_memory - 1, .disk = 0}), testing::HasSubstr("does not fit"));
    const Planned least = plan({.ram = three_tier, .disk = kPlenty});
    for (int block = 0; block < static_cast<int>(least.plan.blocks.size()); ++block) {
        EXPECT_EQ(least.plan.of(block).weights, Home::disk);
        EXPECT_EQ(least.plan.of(block).gradients, Home::disk);
    }
    EXPECT_EQ(least.plan.read_ahead, 0);
}

TEST(Planner, TheTableAddsUp) {
    for (const char* policy : {"in_memory", "three_tier"}) {
        const int64_t process = 123'456;
        const Planned planned = plan({.ram = kPlenty, .disk = kPlenty, .process = process}, policy);
        int64_t memory = 0, disk = 0;
        for (const PlacementRow& row : planned.placement) {
            EXPECT_GE(row.memory_bytes, 0) << row.tag;
            EXPECT_GE(row.disk_bytes, 0) << row.tag;
            memory += row.memory_bytes;
            disk += row.disk_bytes;
        }
        EXPECT_EQ(memory, planned.memory_bytes) << policy;
        EXPECT_EQ(disk, planned.disk_bytes) << policy;
        EXPECT_EQ(planned.memory_bytes, planned.schedules.memory_bytes() + process);
    }
}

TEST(Planner, MoreMemoryIsNeverSlower) {
    if (is_address_sanitized()) GTEST_SKIP() << "a dozen searches; UsesTheDiskWhereMemoryIsShort is some of them";
    const int64_t least = least_memory("three_tier");
    double before = std::numeric_limits<double>::infinity();
    for (int64_t ram = least; ram < 8 * least; ram += least / 2) {
        const Planned planned = plan({.ram = ram, .disk = kPlenty});
        EXPECT_LE(planned.memory_bytes, ram);
        EXPECT_LE(planned.step.seconds, 1.03 * before) << ram;  // the search is deferred to 3 % of the best
        before = std::min(before, planned.step.seconds);
    }
}

TEST(Planner, ARefusalSaysWhatIsNeededAllowedAndEnough) {
    const std::string text = refusal({.ram = 1000, .disk = 0});
    const auto need = static_cast<double>(least_memory("in_memory"));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("needs at least ([0-9.]+ \\w+) of memory")));
    EXPECT_NEAR(static_cast<double>(parse_bytes(found[1].str(), "need")), need, 0.02 * need);
    EXPECT_THAT(text, testing::HasSubstr(
                          fmt::format("allowed are {} of memory and {} of disk", format_bytes(1000), format_bytes(0))));
    EXPECT_THAT(text, testing::HasSubstr("--policy in_memory --gradient-checkpointing true"));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("--max-length")));  // weights and state alone do not fit
    EXPECT_THAT(refusal({.ram = least_memory("in_memory") - 1, .disk = 0}), testing::HasSubstr("--max-length"));
}

// Whoever does what the hint says gets a plan: numbers in it are never rounded down.
TEST(Planner, ItsAdviceIsEnough) {
    for (const int64_t ram : {int64_t{1000}, least_memory("three_tier") - 1, least_memory("in_memory") - 1}) {
        for (const int64_t disk : {int64_t{0}, int64_t{1} << 20, kPlenty}) {
            if ((is_sanitized() && disk == kPlenty) || (is_second_run() && ram != 1000))
                continue;  // UsesTheDiskWhereMemoryIsShort
            std::string text;
            try {
                plan({.ram = ram, .disk = disk});
                continue;
            } catch (const UserError& error) {
                text = error.what();
            }
            std::smatch found;
            if (std::regex_search(text, found, std::regex("--ram ([0-9.]+\\w+)"))) {
                const int64_t advised = parse_bytes(found[1].str(), "hint");
                EXPECT_NO_THROW(plan({.ram = advised, .disk = disk})) << text;
            }
            if (std::regex_search(text, found, std::regex("--ssd-dir DIR --ssd-space ([0-9.]+\\w+)"))) {
                const int64_t advised = parse_bytes(found[1].str(), "hint");
                EXPECT_NO_THROW(plan({.ram = ram, .disk = advised})) << text;
            }
        }
    }
}

// Beside a device with memory of its own: the first change named is one of the host's memory, of the device's, or,
// where neither alone would help, of both.
TEST(Planner, ItsAdviceForADeviceIsEnoughAndTheLeast) {
    if (is_address_sanitized()) GTEST_SKIP() << "a dozen searches; ItsAdviceIsEnough is one of them";
    for (const char* policy : {"", "in_memory", "host_stream", "three_tier"}) {
        for (const int64_t ram : {int64_t{1000}, kPlenty}) {
            for (const int64_t disk : {int64_t{0}, kPlenty}) {
                if (disk == 0 && policy == std::string("three_tier")) continue;
                Budgets budgets{.ram = ram, .disk = disk, .device = 1000};
                std::string text;
                try {
                    plan(budgets, policy, std::nullopt, true);
                    ADD_FAILURE() << "fits";
                } catch (const UserError& error) {
                    text = error.what();
                }
                const std::string change = text.substr(0, text.find(", or "));
                budgets.ram = advised(change, "--ram", ram);
                budgets.device = advised(change, "--device-memory", budgets.device);
                EXPECT_GT(budgets.device, 1000) << text;
                EXPECT_EQ(budgets.ram > ram, ram == 1000) << text;
                EXPECT_NO_THROW(plan(budgets, policy, std::nullopt, true)) << text;
                if (ram == 1000) continue;  // of two needs, the other may be least
                budgets.device = budgets.device / 100 * 98;
                EXPECT_THROW(plan(budgets, policy, std::nullopt, true), UserError) << text;
            }
        }
    }
}

TEST(Planner, KeepsToWhatWasAsked) {
    if (is_sanitized()) GTEST_SKIP() << "many searches; others look at the same memory";
    const Budgets plenty{.ram = kPlenty, .disk = kPlenty};
    EXPECT_EQ(plan(plenty, "three_tier").plan.policy, "three_tier");
    EXPECT_TRUE(plan(plenty, "", true).plan.any_recompute());
    EXPECT_FALSE(
        plan({.ram = least_memory("three_tier") * 4, .disk = kPlenty}, "three_tier", false).plan.any_recompute());
    // What was given already is not said again.
    EXPECT_THAT(refusal({.ram = 1000, .disk = kPlenty}, "three_tier"),
                testing::AllOf(testing::HasSubstr("--ram "), testing::Not(testing::HasSubstr("--policy"))));
    try {
        plan(plenty, "zigzag");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("there is no policy \"zigzag\""));
    }
}

TEST(Planner, ProbesOnePointAtATimeWhereBothDoNotFit) {
    const Recipe recipe = make_recipe("zeroth_order", {});
    const TrainedModel kept = in_sublayers(stored_as(model_of(kOpt175b), recipe));
    const Numerics numerics = numerics_of(DType::bf16, 1, 16, 1);
    PlanRequest request{.policy = "host_stream",
                        .device = {.kind = DeviceKind::fake, .own_memory = true},
                        .budgets = {.ram = kPlenty, .device = kPlenty},
                        .schedules = {train_request(numerics)}};
    Machine machine = some_machine();
    machine.noise_per_s = 1e9;
    const Plan roomy = make_plan(kept, recipe, numerics, machine, request).plan;
    EXPECT_FALSE(roomy.one_probe);
    Plan lean = roomy;
    lean.upload_ahead = lean.read_ahead = 0;
    const int64_t both = evaluate_plan(kept, recipe, numerics, machine, request, lean).device_bytes;
    lean.one_probe = true;
    const int64_t one = evaluate_plan(kept, recipe, numerics, machine, request, lean).device_bytes;
    EXPECT_LT(one, both);
    request.budgets.device = one;
    EXPECT_TRUE(make_plan(kept, recipe, numerics, machine, request).plan.one_probe);
}

// Weights on a drive: what limits its writes, or makes them take longer than anything else, makes
// updates are written back more rarely; what makes random numbers dear, more often.
TEST(Planner, UpdatesGoHomeAsOftenAsDriveAndNoiseAllow) {
    if (is_address_sanitized()) GTEST_SKIP() << "hundreds of large schedules";
    const Recipe recipe = make_recipe("zeroth_order", {});
    std::string config = kOpt175b;  // a sixth of its layers: 30 billion
    config.replace(config.find("96,"), 3, "16,");
    TrainedModel model = model_of(config);
    for (ParamSpec& param : model.params) param.file_dtype = DType::bf16;
    const TrainedModel kept = in_sublayers(stored_as(std::move(model), recipe));
    const Numerics numerics = numerics_of(DType::bf16, 1, 2048, 4);
    PlanRequest request{.policy = "three_tier",
                        .device = {.kind = DeviceKind::fake, .own_memory = true},
                        .budgets = {.ram = 24 * kGiB, .disk = 8192 * kGiB, .device = 24 * kGiB},
                        .schedules = {train_request(numerics)}};
    Machine machine = some_machine();
    machine.noise_per_s = 1e12;
    const Planned cheap = make_plan(kept, recipe, numerics, machine, request);
    EXPECT_EQ(cheap.plan.writeback_steps, 16);
    const double weights = 2 * static_cast<double>(kept.param_count());
    EXPECT_NEAR(static_cast<double>(cheap.step.demand.disk_write_bytes), weights / 16, 0.001 * weights);
    machine.noise_per_s = 1e8;
    EXPECT_EQ(make_plan(kept, recipe, numerics, machine, request).plan.writeback_steps, 1);
    request.budgets.step_disk_writes = static_cast<int64_t>(weights / 7);
    const Planned limited = make_plan(kept, recipe, numerics, machine, request);
    EXPECT_EQ(limited.plan.writeback_steps, 8);
    EXPECT_LE(limited.step.demand.disk_write_bytes, request.budgets.step_disk_writes);
    request.writeback_steps = 12;
    EXPECT_EQ(make_plan(kept, recipe, numerics, machine, request).plan.writeback_steps, 12);
    request.policy = "in_memory";
    request.budgets = {.ram = kPlenty, .device = kPlenty};
    EXPECT_EQ(make_plan(kept, recipe, numerics, machine, request).plan.writeback_steps, 1);
}

// Any choice of any policy, for every method and both kinds of device: lowered, checked, simulated, without memory.
TEST(Planner, EveryMethodLowersUnderEveryPolicy) {
    Random random(7, RandomStream::test);
    for (const char* method : method_names()) {
        const Recipe recipe = make_recipe(method, {});
        for (const char* name : {"llama", "gpt2", "opt"}) {
            const TrainedModel kept = stored_as(tiny_model(name), recipe);
            const Numerics numerics = numerics_of(DType::bf16, 1, 16, 2);
            const SavedRanks ranks =
                rank_saved(kept, train_request(numerics), DeviceKind::cpu, numerics, some_machine());
            for (const bool own_memory : {false, true}) {
                const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = own_memory},
                                          .budgets = {.disk = kPlenty},
                                          .schedules = {train_request(numerics)}};
                for (const Policy* policy : all_policies()) {
                    std::optional<Space> space =
                        policy->space(request, {.saved_most = most_saved(ranks), .block_chunks = 8});
                    if (space && recipe.probes()) space = forward_only(std::move(*space), kept, recipe, 0);
                    if (space && recipe.uses_gradients_at_once()) space = at_once(std::move(*space));
                    EXPECT_EQ(space.has_value(), own_memory || policy->name != "host_stream");
                    for (int trial = 0; space && trial < 12; ++trial) {
                        Choice choice{};
                        for (size_t knob = 0; knob < kKnobs; ++knob) {
                            const std::vector<int>& values = space->values[knob];
                            choice[knob] =
                                values[static_cast<size_t>(random.below(static_cast<uint64_t>(values.size())))];
                        }
                        const Plan plan = plan_of(*space, choice, ranks, programs_of(kept));
                        EXPECT_EQ(plan.policy, policy->name);
                        const ScheduleSet set = checked(kept, recipe, numerics, plan);
                        EXPECT_GT(simulate(set.schedules[0], some_machine()).seconds, 0)
                            << method << ": " << describe(plan);
                    }
                }
            }
        }
    }
}

// A model of 175 billion parameters on a machine with 128 GiB and a large drive, without a byte of either.
TEST(Planner, PlansForModelsFarBeyondThisMachine) {
    if (is_address_sanitized()) GTEST_SKIP() << "hundreds of large schedules";
    const TrainedModel large = model_of(kOpt175b);
    const Numerics numerics = numerics_of(DType::bf16, 1, 2048, 4);
    const PlanRequest request{.policy = "three_tier",
                              .recompute = true,
                              .device = {DeviceKind::fake},
                              .budgets = {.ram = 128 * kGiB, .disk = 8192 * kGiB},
                              .schedules = {train_request(numerics)}};
    const Planned planned = make_plan(large, make_recipe("adamw", {}), numerics, some_machine(), request);
    EXPECT_EQ(planned.plan.of(50).weights, Home::disk);
    EXPECT_LE(planned.memory_bytes, 128 * kGiB);
    // Two versions of 12 bytes a parameter, and 4 of gradients on their way where they do not stay.
    const auto n = static_cast<double>(large.param_count());
    const double versions = 24 * n, spilled = 4 * n;
    EXPECT_GE(static_cast<double>(planned.disk_bytes), versions);
    EXPECT_LE(static_cast<double>(planned.disk_bytes), versions + 2 * spilled);
}

}  // namespace
}  // namespace windlass
