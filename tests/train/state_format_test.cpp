// Moments in bf16 and in 8 bits: runs that are stopped and moved as any other, and losses that follow those of f32.
#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "session/session.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using StateFormatTest = TrainTest;

TEST_F(StateFormatTest, PlacementAndStopsNeverChangeABit) {
    std::vector<std::string> weights;
    for (const char* format : {"fp32", "bf16", "int8"}) {
        const std::string name = format, whole = name + "_whole", parts = name + "_parts", disk = name + "_disk";
        run(whole, {{"state_format", format}});
        run(disk, {{"state_format", format}, {"policy", "three_tier"}});
        run(parts, {{"state_format", format}, {"max_steps", "6"}, {"save_steps", "6"}});
        run(parts, {{"resume", "auto"}, {"policy", "three_tier"}});  // the format is the run's own
        for (const std::string& other : {parts, disk}) {
            EXPECT_EQ(history(other), history(whole));
            EXPECT_EQ(bytes(other + kWeights), bytes(whole + kWeights));
        }
        weights.push_back(bytes(whole + kWeights));
    }
    EXPECT_NE(weights[0], weights[1]);
    EXPECT_NE(weights[0], weights[2]);
}

TEST_F(StateFormatTest, AnotherFormatIsAnotherRun) {
    run("run", {{"max_steps", "4"}, {"save_steps", "4"}, {"state_format", "bf16"}});
    try {
        run("run", {{"resume", "auto"}, {"state_format", "int8"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("state_format was bf16, is int8"));
    }
}

// Rows in which each letter follows from the two before it three times out of four: there is something to learn, and
// enough of them that they are not learned by heart, where losses depend on every bit.
std::string learnable_rows(int64_t count) {
    Random random(3, RandomStream::test);
    std::string text;
    for (int64_t row = 0; row < count; ++row) {
        uint64_t before = random.below(12), last = random.below(12);
        std::string letters;
        for (int i = 0; i < 48; ++i) {
            const uint64_t next = random.below(4) < 3 ? (last * 5 + before * 3 + 1) % 12 : random.below(12);
            letters += static_cast<char>('a' + next);
            before = last;
            last = next;
        }
        text += fmt::format("{{\"text\": \"{}\"}}\n", letters);
    }
    return text;
}

TEST_F(StateFormatTest, LossesFollowThoseOfF32) {
    write("train.jsonl", learnable_rows(600));
    std::vector<double> last;
    for (const char* format : {"fp32", "bf16", "int8"}) {
        run(format, {{"state_format", format}, {"max_steps", "300"}, {"learning_rate", "0.001"}});
        const std::vector<double> all = losses(format);
        ASSERT_EQ(all.size(), 300u);
        last.push_back(std::accumulate(all.end() - 40, all.end(), 0.0) / 40);
        EXPECT_LT(last.back(), 0.6 * all.front());
    }
    EXPECT_NEAR(last[1], last[0], 0.005 * last[0]);
    EXPECT_NEAR(last[2], last[0], 0.005 * last[0]);
}

}  // namespace
}  // namespace windlass
