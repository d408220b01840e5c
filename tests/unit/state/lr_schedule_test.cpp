#include "state/lr_schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace windlass {
namespace {

struct PublishedRate {
    const char* name;
    LrSchedule schedule;
    std::array<double, 9> rates;  // of updates 1 2 3 4 5 8 12 16 20
};

// The rates are those of transformers 5.23.0 (optimization.py) with torch 2.15.0: a base learning rate of 0.01, read
// from the optimizer before each of 20 updates.
const PublishedRate kTransformers[] = {
    {"linear", {"linear", 0.01, 20, 4}, {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.008125, 0.005625, 0.003125, 0.000625}},
    {"cosine",
     {"cosine", 0.01, 20, 4},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.009157348061512726, 0.005975451610080642, 0.00222214883490199,
      9.607359798384785e-05}},
    {"cosine_with_restarts, 3 cycles",
     {.type = "cosine_with_restarts", .peak = 0.01, .total_steps = 20, .warmup_steps = 4, .cycles = 3},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.004024548389919359, 0.007777851165098011, 0.009903926402016152,
      0.0008426519384872733}},
    {"polynomial, power 2",
     {.type = "polynomial", .peak = 0.01, .total_steps = 20, .warmup_steps = 4, .power = 2},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0066015964843750006, 0.0031641308593750002, 0.000976652734375,
      3.9162109375000006e-05}},
    {"constant_with_warmup",
     {"constant_with_warmup", 0.01, 20, 4},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01, 0.01, 0.01}},
    {"inverse_sqrt",
     {"inverse_sqrt", 0.01, 20, 4},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.007559289460184544, 0.006030226891555273, 0.005163977794943222,
      0.004588314677411235}},
    {"inverse_sqrt, no warmup",
     {"inverse_sqrt", 0.01, 20, 0},
     {0.01, 0.009999500037496877, 0.009999000149975006, 0.009998500337415648, 0.00999800059980007, 0.009996501836428782,
      0.009994504533344625, 0.00999250842696695, 0.0099905135161012}},
    {"cosine_with_min_lr",
     {"cosine_with_min_lr", 0.01, 20, 4, 0.1},
     {0.0, 0.0025, 0.005, 0.0075, 0.01, 0.009241613255361453, 0.006377906449072578, 0.002999933951411791,
      0.0010864662381854632}},
    {"warmup_stable_decay, 6 steps",
     {.type = "warmup_stable_decay",
      .peak = 0.01,
      .total_steps = 20,
      .warmup_steps = 4,
      .min_ratio = 0.1,
      .decay_steps = 6},
     {0.001, 0.0032500000000000003, 0.0055000000000000005, 0.007750000000000001, 0.01, 0.01, 0.01, 0.009397114317029975,
      0.0016028856829700259}},
};

TEST(LrSchedule, GivesWhatTransformersGives) {
    constexpr std::array<int64_t, 9> kUpdates = {1, 2, 3, 4, 5, 8, 12, 16, 20};
    for (const PublishedRate& row : kTransformers) {
        for (size_t i = 0; i < kUpdates.size(); ++i) {
            // A few units in the last place: the order of multiplications is not the same everywhere.
            EXPECT_NEAR(learning_rate(row.schedule, kUpdates[i]), row.rates[i], 1e-17)
                << row.name << " " << kUpdates[i];
        }
    }
}

TEST(LrSchedule, StaysDefinedPastItsEndAndForNothing) {
    for (const PublishedRate& row : kTransformers) {
        EXPECT_GE(learning_rate(row.schedule, 21), 0.0) << row.name;
        EXPECT_GE(learning_rate(row.schedule, 1000), 0.0) << row.name;
        LrSchedule all_warmup = row.schedule;
        all_warmup.warmup_steps = 20;
        EXPECT_LE(learning_rate(all_warmup, 20), 0.0101) << row.name;
        LrSchedule none = row.schedule;
        none.peak = 0;
        EXPECT_EQ(learning_rate(none, 3), 0.0) << row.name;
    }
    EXPECT_EQ(learning_rate({.type = "constant", .peak = 0.5, .total_steps = 3}, 2), 0.5);
    EXPECT_THROW(learning_rate({.type = "sawtooth", .peak = 1, .total_steps = 3}, 2), UserError);
}

}  // namespace
}  // namespace windlass
