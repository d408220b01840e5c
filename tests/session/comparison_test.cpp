// Other methods and settings, one after the other, until it is ended.
#include "session/comparison.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "tests/sanitizer.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

class ComparisonTest : public TrainTest {
  protected:
    Session prepare(const Settings& changes = {}) {
        Settings settings = {{"model", at("model")},         {"ram", "1GiB"},
                             {"machine", "rtx4090-desktop"}, {"policy", "three_tier"},
                             {"device_memory", "16MiB"},     {"max_length", "32"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        std::vector<std::string> words;
        for (const auto& [key, value] : settings) words.push_back(fmt::format("{}={}", key, value));
        const Config config = make_config(read_config_sources(files_, words), ConfigUse::plan).config;
        return prepare_session(files_, config, std::nullopt, ConfigUse::plan, KeptPlans::ignored);
    }
};

// What a comparison found, in order.
std::vector<std::string> rows_of(const Comparison& comparison) {
    std::vector<std::string> rows;
    for (const MethodAdvice& each : comparison.methods)
        rows.push_back(fmt::format("{} {}", each.name, each.planned ? each.planned->mean_seconds : 0));
    for (const Cheaper& each : comparison.cheaper)
        rows.push_back(fmt::format("{} {}", settings_words(each.settings), each.step_seconds));
    return rows;
}

TEST_F(ComparisonTest, HandsRowsOverInOneOrder) {
    const Session session = prepare();
    std::vector<std::string> seen;
    const ComparisonView view{.method = [&](const MethodAdvice& each) { seen.push_back(each.name); },
                              .cheaper = [&](const Cheaper& each) { seen.push_back(settings_words(each.settings)); }};
    const Comparison one = compare(session, methods_to_compare(session), view, {.threads = is_second_run() ? 4 : 1});
    std::vector<std::string> names;
    for (const MethodAdvice& each : one.methods) names.push_back(each.name);
    EXPECT_THAT(names, testing::ElementsAre("adamw", "adamw, lora", "adamw, qlora", "adalomo", "lomo", "adamw, lsp",
                                            "forward_gradient", "zeroth_order"));
    for (const Cheaper& each : one.cheaper) names.push_back(settings_words(each.settings));
    EXPECT_EQ(seen, names);
    EXPECT_TRUE(one.not_reached.empty());
    EXPECT_EQ(compared_json(one), (Json{{"complete", true}, {"not_reached", Json::array()}}));
    if (is_second_run()) return;  // one comparison takes a minute then
    const Comparison several = compare(session, methods_to_compare(session), {}, {.threads = 4});
    EXPECT_EQ(rows_of(several), rows_of(one));
}

// Ended after any number of evaluations: what was found before is as it was, and the rest is named.
TEST_F(ComparisonTest, IsEndedAtAnyTime) {
    if (is_second_run()) GTEST_SKIP() << "several comparisons; HandsRowsOverInOneOrder is one of them";
    const Session session = prepare();
    const auto ended_after = [&](int evaluations) {
        std::atomic<int> asked = 0;
        Comparison found = compare(session, methods_to_compare(session), {},
                                   {.should_stop = [&] { return asked++ >= evaluations; }, .threads = 1});
        return std::pair(std::move(found), asked.load());
    };
    const auto [whole, all] = ended_after(1 << 30);
    ASSERT_TRUE(whole.not_reached.empty());
    const std::vector<std::string> rows = rows_of(whole);
    size_t most = 0;
    for (const int part : {0, 1, 3, 7}) {
        const auto [found, asked] = ended_after(all * part / 8);
        EXPECT_FALSE(found.not_reached.empty());
        const std::vector<std::string> methods = rows_of({.methods = found.methods});
        ASSERT_LE(methods.size(), rows.size());
        EXPECT_TRUE(std::equal(methods.begin(), methods.end(), rows.begin())) << part;
        EXPECT_GE(methods.size(), most);
        most = methods.size();
        const std::set<std::string> names(found.not_reached.begin(), found.not_reached.end());
        EXPECT_EQ(names.size(), found.not_reached.size()) << "each is named once";
        if (part == 0) {
            EXPECT_THAT(found.not_reached, testing::IsSupersetOf({"adamw, lora", "state_format=int8"}));
        }
        EXPECT_FALSE(compared_json(found)["complete"].get<bool>());
    }
    EXPECT_GT(most, 0u);
}

TEST(PlanInOrder, TakesInOrderWhatEndsInAny) {
    std::atomic<int> running = 0;
    std::vector<int64_t> taken;
    const auto plan = [&](int64_t index, const ShouldStop&) {
        ++running;
        while (index == 0 && running < 4) std::this_thread::yield();  // the first is the last to end
    };
    plan_in_order(4, plan, {.threads = 4, .take = [&](int64_t index, bool done) {
                                EXPECT_TRUE(done);
                                taken.push_back(index);
                            }});
    EXPECT_THAT(taken, testing::ElementsAre(0, 1, 2, 3));
}

TEST(PlanInOrder, AFailureEndsTheOthersAndIsThrown) {
    const auto plan = [](int64_t index, const ShouldStop& should_stop) {
        if (index == 1) throw UserError(ExitCode::usage, "here", "it fails");
        while (!should_stop()) std::this_thread::yield();
        throw PlanStopped();
    };
    EXPECT_THROW(plan_in_order(8, plan, {.threads = 2}), UserError);
    const auto nothing = [](int64_t, const ShouldStop&) {};
    const auto refuse = [](int64_t, bool) { throw MachineError("write", "stdout", ENOSPC); };
    EXPECT_THROW(plan_in_order(8, nothing, {.threads = 2, .take = refuse}), MachineError);
    plan_in_order(0, nothing, {.take = refuse});
}

TEST(PlanInOrder, WhatIsStoppedIsNotDone) {
    std::atomic<bool> stop = false;
    std::vector<bool> done;
    const auto plan = [&](int64_t index, const ShouldStop& should_stop) {
        if (index < 2) return;
        stop = true;
        if (should_stop()) throw PlanStopped();
    };
    plan_in_order(5, plan,
                  {.threads = 1,
                   .should_stop = [&] { return stop.load(); },
                   .take = [&](int64_t, bool is_done) { done.push_back(is_done); }});
    EXPECT_THAT(done, testing::ElementsAre(true, true, false, false, false));
}

}  // namespace
}  // namespace windlass
