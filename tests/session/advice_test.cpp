// The advisor: backpropagation wherever it fits, and what else there is where it does not.
#include "session/advice.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class AdviceTest : public TrainTest {
  protected:
    Config with_memory(const std::string& bytes, const Settings& changes = {}) {
        Settings settings = {{"ram", bytes}};
        settings.insert(changes.begin(), changes.end());
        return config("advised", settings);
    }
};

MethodAdvice fits(const std::string& method, double seconds) {
    MethodAdvice advice{
        .method = method, .name = method, .planned = Planned{}, .steps_factor = method == "adamw" ? 1.0 : 32.0};
    advice.planned->mean_seconds = seconds;
    return advice;
}

TEST(Advice, BackpropagationWhereItFitsHoweverSlow) {
    EXPECT_EQ(advised_method({fits("adamw", 100), fits("forward_gradient", 1), fits("zeroth_order", 1)}), "adamw");
    EXPECT_EQ(advised_method({{.method = "adamw", .name = "adamw"}, fits("lomo", 100), fits("zeroth_order", 1)}),
              "lomo");
    EXPECT_EQ(advised_method({fits("lomo", 1), fits("adamw", 100)}), "adamw");
    EXPECT_EQ(advised_method({fits("forward_gradient", 2), fits("zeroth_order", 1)}), "zeroth_order");
    EXPECT_EQ(
        advised_method({{.method = "adamw", .name = "adamw"}, fits("forward_gradient", 1), fits("zeroth_order", 2)}),
        "forward_gradient");
    EXPECT_EQ(
        advised_method({{.method = "adamw", .name = "adamw"}, {.method = "zeroth_order", .name = "zeroth_order"}}), "");
    EXPECT_THAT(advice_text({{.method = "adamw", .name = "adamw"}}), HasSubstr("no method fits"));
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
    EXPECT_THAT(names, testing::ElementsAre("adamw", "adamw, lora", "adamw, qlora", "adamw, lsp", "adalomo", "lomo",
                                            "forward_gradient", "zeroth_order"));
    EXPECT_GT(methods[0].planned->memory_bytes, methods[7].planned->memory_bytes);
    EXPECT_EQ(advised_method(methods), "adamw");
    EXPECT_EQ(advice_json(methods)["advised"], "adamw");
}

// As many forward passes in all, however many directions a step has; FZOO takes a third of them.
TEST_F(AdviceTest, StepsAreThoseOfTheEstimator) {
    const auto zeroth_order_steps = [&](const Settings& changes) {
        Settings settings = {{"method", "zeroth_order"}};
        settings.insert(changes.begin(), changes.end());
        return compare_methods(prepare_session(files_, with_memory("1GiB", settings), {})).back().steps_factor;
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
    const int64_t least = memory("zeroth_order"), between = (least + memory("adamw")) / 2;
    ASSERT_LT(least, between);
    const Config little = with_memory(std::to_string(between), {{"gradient_checkpointing", "false"}});
    const std::string others = others_that_fit(files_, little);
    EXPECT_THAT(others, HasSubstr("method=zeroth_order"));
    EXPECT_THAT(others, Not(HasSubstr("adamw")));
    EXPECT_THAT(others_that_fit(files_, with_memory("1KiB")), IsEmpty());
}

}  // namespace
}  // namespace windlass
