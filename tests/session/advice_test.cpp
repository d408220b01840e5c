// The advisor: what learns most in a step, unless its hours or the wear of the drives are out of proportion.
#include "session/advice.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "tests/train/compared.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class AdviceTest : public TrainTest {
  protected:
    Config with_memory(const std::string& bytes, const Settings& changes = {}) {
        Settings settings = {{"ram", bytes}};
        settings.insert(changes.begin(), changes.end());
        return config("advised", settings);
    }
};

constexpr RunCosts kDesktop{.steps = 1000, .endurance_bytes = 2400e12};

MethodAdvice fits(const std::string& method, double seconds, int64_t writes = 0, const std::string& adapter = "") {
    MethodAdvice advice{.method = method,
                        .adapter = adapter,
                        .name = adapter.empty() ? method : method + ", " + adapter,
                        .planned = Planned{},
                        .steps_factor = method == "zeroth_order" || method == "forward_gradient" ? 32.0 : 1.0};
    advice.planned->mean_seconds = seconds;
    advice.planned->step.demand.disk_write_bytes = writes;
    return advice;
}
MethodAdvice too_large(const std::string& method) {
    return {.method = method, .name = method};
}

TEST(Advice, BackpropagationWhereItFits) {
    const auto advised = [](const std::vector<MethodAdvice>& methods) { return advised_method(methods, kDesktop); };
    EXPECT_EQ(advised({fits("adamw", 100), fits("forward_gradient", 1), fits("zeroth_order", 1)}), "adamw");
    EXPECT_EQ(advised({too_large("adamw"), fits("lomo", 100), fits("zeroth_order", 1)}), "lomo");
    EXPECT_EQ(advised({fits("lomo", 1), fits("adamw", 3)}), "adamw");
    EXPECT_EQ(advised({fits("forward_gradient", 2), fits("zeroth_order", 1)}), "zeroth_order");
    EXPECT_EQ(advised({too_large("adamw"), fits("forward_gradient", 1), fits("zeroth_order", 2)}), "forward_gradient");
    EXPECT_EQ(advised({too_large("adamw"), too_large("zeroth_order")}), "");
    EXPECT_THAT(advice_text({too_large("adamw")}, kDesktop), HasSubstr("Advice    no method fits\n"));
    EXPECT_THAT(advice_text({too_large("adamw"), fits("adamw", 1, 0, "lora")}, kDesktop),
                HasSubstr("Advice    use adamw, lora: it fits; training all parameters does not\n"));
    EXPECT_THAT(advice_text({fits("adamw", 1)}, kDesktop), HasSubstr("Advice    use adamw: it fits, and needs"));
}

// 1000 steps of 51 s are 14 hours, of 6 s not two. 90 GB a step are 90 TB: 3.75 % of 2400 TB.
TEST(Advice, WeighsHoursAndDriveWear) {
    constexpr int64_t kWrites = 90'000'000'000;
    const std::vector<MethodAdvice> methods = {fits("adamw", 51, kWrites), fits("adamw", 6, 0, "lora"),
                                               fits("lomo", 5)};
    EXPECT_EQ(advised_method(methods, kDesktop), "adamw, lora");
    EXPECT_THAT(
        advice_line(methods, kDesktop),
        testing::StrEq("Advice    use adamw, lora: 1000 steps take 01:40:00; adamw would take 14:10:00 and write "
                       "81.85 TiB, 3.8 % of the drives' life\n"));
    // Each alone is enough: hours, or wear.
    EXPECT_EQ(advised_method({fits("adamw", 51), fits("adamw", 6, 0, "lora")}, kDesktop), "adamw, lora");
    EXPECT_EQ(advised_method({fits("adamw", 7, kWrites), fits("adamw", 6, 0, "lora")}, kDesktop), "adamw, lora");
    // Neither four times as long, nor a hundredth of the drives' life.
    EXPECT_EQ(advised_method({fits("adamw", 23), fits("adamw", 6, 0, "lora")}, kDesktop), "adamw");
    EXPECT_EQ(advised_method({fits("adamw", 7, kWrites), fits("adamw", 6, 0, "lora")}, {1000, 84e15}), "adamw");
    // An hour is short, and ten steps write little.
    EXPECT_EQ(advised_method(methods, {10, 2400e12}), "adamw");
    EXPECT_EQ(advised_method({fits("adamw", 51), fits("adamw", 6, 0, "lora")}, {70, 2400e12}), "adamw");
    EXPECT_EQ(advised_method({fits("adamw", 51), fits("adamw", 6, 0, "lora")}, {71, 2400e12}), "adamw, lora");
    // Where all are dear: the fastest with backpropagation.
    EXPECT_EQ(advised_method({fits("adamw", 9, kWrites), fits("adamw", 6, kWrites, "lora"), fits("zeroth_order", 0.1)},
                             kDesktop),
              "adamw, lora");
}

TEST_F(AdviceTest, CountsTheStepsThatAdamWouldTake) {
    const auto costs = [&](const Settings& changes) {
        return run_costs(prepare_session(files_, with_memory("1GiB", changes), {}));
    };
    EXPECT_EQ(costs({{"max_steps", "64"}}).steps, 64);
    EXPECT_EQ(costs({{"max_steps", "64"}, {"method", "zeroth_order"}}).steps, 2);
    EXPECT_EQ(costs({{"max_steps", "64"}}).endurance_bytes, 600e12) << "these drives are not known";
}

TEST_F(AdviceTest, EachMethodWithinTheSameBudgets) {
    const std::vector<MethodAdvice> methods = compare_methods(prepare_session(files_, with_memory("1GiB"), {}));
    std::vector<std::string> names;
    for (const MethodAdvice& each : methods) {
        names.push_back(each.name);
        ASSERT_TRUE(each.planned.has_value()) << each.name;
        EXPECT_LE(each.planned->memory_bytes, int64_t{1} << 30);
        EXPECT_EQ(each.steps_factor, find_method(each.method).recipe({}).probes() ? 32 : 1);
    }
    EXPECT_THAT(names, testing::ElementsAre("adamw", "adamw, lora", "adamw, qlora", "adalomo", "lomo", "adamw, lsp",
                                            "forward_gradient", "zeroth_order"));
    EXPECT_GT(methods[0].planned->memory_bytes, methods[7].planned->memory_bytes);
    EXPECT_EQ(advised_method(methods, {}), "adamw");
    EXPECT_EQ(advice_json(methods, {})["advised"], "adamw");
}

// As many forward passes in all, however many directions a step has; FZOO takes a third of them.
TEST_F(AdviceTest, StepsAreThoseOfTheEstimator) {
    const auto zeroth_order_steps = [&](const Settings& changes) {
        Settings settings = {{"method", "zeroth_order"}};
        settings.insert(changes.begin(), changes.end());
        return compare_methods(prepare_session(files_, with_memory("1GiB", settings), {})).front().steps_factor;
    };
    EXPECT_EQ(zeroth_order_steps({{"directions", "8"}}), 4);
    EXPECT_EQ(zeroth_order_steps({{"directions", "64"}}), 1);
    EXPECT_NEAR(zeroth_order_steps({{"directions", "8"}, {"zo_estimator", "fzoo"}}), 40000.0 / 3 / 9 / 625, 1e-12);
    EXPECT_NEAR(zeroth_order_steps({{"directions", "10"}, {"zo_estimator", "spsa15"}}), 40000.0 / 21 / 625, 1e-12);
}

TEST_F(AdviceTest, EachMethodTrainsWhatTheRunTrains) {
    // What the process itself takes is measured anew each time.
    const auto memory = [&](const Settings& settings) {
        const Session session = prepare_session(files_, with_memory("1GiB", settings), {});
        std::map<std::string, int64_t> bytes;
        for (const MethodAdvice& each : compare_methods(session))
            bytes[each.name] = each.planned->memory_bytes - session.request.budgets.process;
        return bytes;
    };
    const std::map<std::string, int64_t> all = memory({}), few = memory({{"freeze", "[\"*.layers.*\"]"}});
    EXPECT_LT(few.at("adamw"), all.at("adamw"));
    EXPECT_LE(few.at("forward_gradient"),
              all.at("forward_gradient"));  // most is tangents of the table, which is trained
    EXPECT_LT(few.at("zeroth_order"), all.at("zeroth_order"));
    EXPECT_EQ(few.at("adamw, lora"), all.at("adamw, lora"));  // groups of the run are not an adapter's
}

// Between what the two methods want, the refusal names the one that is left.
TEST_F(AdviceTest, ARefusalNamesWhatElseFits) {
    const auto memory = [&](const std::string& method) {
        return prepare_session(files_, with_memory("1GiB", {{"method", method}}), {}).planned.memory_bytes;
    };
    // What the process itself takes grows until everything was planned once.
    find_others_that_fit(files_, with_memory("1GiB"), KeptPlans::used, [](const std::string&) {});
    const int64_t least = memory("zeroth_order"), between = (least + memory("adamw")) / 2;
    ASSERT_LT(least, between);
    const Config little = with_memory(std::to_string(between), {{"gradient_checkpointing", "false"}});
    std::vector<std::string> others;
    const auto add = [&](const std::string& words) { others.push_back(words); };
    find_others_that_fit(files_, little, KeptPlans::used, add);
    EXPECT_THAT(others, Contains(HasSubstr("--method zeroth_order, which fits")));
    EXPECT_THAT(others, Not(Contains(HasSubstr("adamw"))));
    others.clear();
    find_others_that_fit(files_, with_memory("1KiB"), KeptPlans::used, add);
    EXPECT_THAT(others, IsEmpty());
}

// A policy that was set by hand may be all that is in the way.
TEST_F(AdviceTest, ARefusalNamesThePlacementThatFits) {
    const auto in_memory = [&](const std::string& device_memory) {
        return with_memory("1GiB", {{"device", "cpu:emulate"},
                                    {"device_memory", device_memory},
                                    {"policy", "in_memory"},
                                    {"gradient_checkpointing", "false"}});
    };
    const int64_t all = prepare_session(files_, in_memory("1GiB"), {}).planned.device_bytes;
    std::vector<std::string> others;
    find_others_that_fit(files_, in_memory(std::to_string(all / 2)), KeptPlans::used,
                         [&](const std::string& words) { others.push_back(words); });
    ASSERT_THAT(others, Not(IsEmpty()));
    EXPECT_THAT(others[0], testing::AllOf(StartsWith("--policy auto --gradient-checkpointing auto, which fits with "),
                                          HasSubstr(", the same number of steps")));
    EXPECT_THAT(others, Each(HasSubstr(" auto, which fits with ")));  // in_memory fits with no other method either
    EXPECT_THAT(others, Contains(StartsWith("--method zeroth_order --policy auto, which fits with ")));
}

}  // namespace
}  // namespace windlass
