#include "state/best_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "tests/place.h"

namespace windlass {
namespace {

double value_of(const Json& json) {
    return json.is_number() ? json.get<double>() : std::nan("");
}

void play(const Json& known) {
    const BestRule rule{.greater_is_better = known["greater_is_better"].get<bool>(),
                        .patience = known["patience"].get<int64_t>(),
                        .threshold = known["threshold"].get<double>()};
    BestStep best;
    std::optional<int64_t> stops;
    for (size_t i = 0; i < known["values"].size(); ++i) {
        const auto step = static_cast<int64_t>(i) + 1;
        const bool is_best = judge(rule, step, value_of(known["values"][i]), best);
        EXPECT_EQ(best.step, known["bests"][i].get<int64_t>()) << step;
        EXPECT_EQ(best.misses, known["misses"][i].get<int64_t>()) << step;
        EXPECT_EQ(is_best, best.step == step) << step;
        if (!stops && gives_up(rule, best)) stops = step;
    }
    EXPECT_EQ(stops.value_or(0), known["stops"].is_null() ? 0 : known["stops"].get<int64_t>());
}

TEST(BestStep, IsTransformersBestAndStopsWhereItsCallbackStops) {
    const std::string path = source_dir() + "/tests/golden/early_stopping.json";
    const Json golden = parse_json(read_text(real_files(), path, 1 << 20), path, ExitCode::storage);
    ASSERT_GE(golden["cases"].size(), 40u);
    int stopped = 0;
    for (const Json& known : golden["cases"]) {
        SCOPED_TRACE(known.dump());
        play(known);
        stopped += known["stops"].is_null() ? 0 : 1;
    }
    EXPECT_GT(stopped, 10) << "cases that stop";
}

TEST(BestStep, WithoutPatienceNeverGivesUp) {
    BestStep best;
    for (int64_t step = 1; step < 100; ++step) judge({}, step, static_cast<double>(step), best);
    EXPECT_EQ(best.step, 1);
    EXPECT_FALSE(gives_up({}, best));
}

}  // namespace
}  // namespace windlass
