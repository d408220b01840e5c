#include "state/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace windlass {
namespace {

RunState example() {
    return {.step = 7,
            .position = {2, 11},
            .seed = 42,
            .method = "adamw",
            .data_fingerprint = "abc",
            .numerics = {.compute = DType::bf16,
                         .micro_rows = 4,
                         .micro_count = 2,
                         .row_lengths = {64, 256},
                         .kernel_path = "avx2",
                         .state_format = StateFormat::s2},
            .schedule = {.type = "cosine", .peak = 3e-5, .total_steps = 100, .warmup_steps = 10},
            .tokens_total = 12345,
            .last_loss = 1.0 / 3.0,
            .bad_steps = 1,
            .applied_steps = 6,
            .clipped_steps = 2};
}

TEST(RunState, ReadsBackAsItWas) {
    const RunState state = example();
    const RunState read = parse_run_state(run_state_text(state), "here");
    EXPECT_EQ(run_state_text(read), run_state_text(state));
    EXPECT_EQ(read.numerics, state.numerics);
    EXPECT_EQ(read.schedule, state.schedule);
    EXPECT_EQ(read.position, state.position);
    EXPECT_EQ(read.last_loss, state.last_loss);
}

TEST(RunState, OfAnEarlierVersionKnowsOfNoClipping) {
    std::string text = run_state_text(example());
    for (const std::string part : {"\"applied_steps\":6,", "\"clipped_steps\":2,"}) {
        ASSERT_NE(text.find(part), text.npos) << text;
        text.erase(text.find(part), part.size());
    }
    const RunState read = parse_run_state(text, "here");
    EXPECT_EQ(read.applied_steps, 0);
    EXPECT_EQ(read.clipped_steps, 0);
    EXPECT_EQ(read.bad_steps, 1);
}

TEST(RunState, KnowsItsParameterGroups) {
    RunState state = example();
    state.param_groups = {"*norm* weight_decay=0.1", "* train=false"};
    std::string text = run_state_text(state);
    EXPECT_EQ(parse_run_state(text, "here").param_groups, state.param_groups);
    const std::string part = R"("param_groups":["*norm* weight_decay=0.1","* train=false"],)";
    ASSERT_NE(text.find(part), text.npos) << text;
    text.erase(text.find(part), part.size());
    EXPECT_TRUE(parse_run_state(text, "here").param_groups.empty()) << "of a version that had none";
}

TEST(RunState, KnowsTheScalesOfWeightsIn8Bits) {
    RunState state = example();
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").weight_storage, "as_file");
    state.weight_storage = "f8";
    state.scale_exponents = {-11, 0, 7};
    const RunState read = parse_run_state(run_state_text(state), "here");
    EXPECT_EQ(read.weight_storage, "f8");
    EXPECT_EQ(read.scale_exponents, state.scale_exponents);
    try {
        require_same_run(read, example(), "here");
        FAIL() << "another storage";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("weight_storage was f8, is as_file"));
    }
    std::string text = run_state_text(state);
    text.replace(text.find("\"f8\""), 4, "\"f4\"");
    EXPECT_THROW(parse_run_state(text, "x"), UserError);
}

TEST(RunState, KnowsWeightsIn4BitsWhichHaveNoScalesBesideThem) {
    RunState state = example();
    state.weight_storage = "nf4";
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").weight_storage, "nf4");
    state.scale_exponents = {-11};
    EXPECT_THROW(parse_run_state(run_state_text(state), "here"), UserError);
}

TEST(RunState, KnowsWhenUpdatesAreFolded) {
    RunState state = example();
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").fold_updates, "each_step");
    state.fold_updates = "never";
    std::string text = run_state_text(state);
    EXPECT_EQ(parse_run_state(text, "here").fold_updates, "never");
    try {
        require_same_run(state, example(), "here");
        FAIL() << "folded otherwise";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("fold_updates was never, is each_step"));
    }
    text.replace(text.find("\"never\""), 7, "\"moon\"");
    EXPECT_THROW(parse_run_state(text, "x"), UserError);
}

TEST(RunState, RefusesDamage) {
    const std::string text = run_state_text(example());
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        return changed;
    };
    EXPECT_THROW(parse_run_state("{}", "x"), UserError);
    EXPECT_THROW(parse_run_state(text.substr(0, text.size() / 2), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"version\":1", "\"version\":2"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"bf16\"", "\"f8\""), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"micro_rows\":4", "\"micro_rows\":-4"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"s2\"", "\"s9\""), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"clipped_steps\":2", "\"clipped_steps\":7"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("[64,256]", "[256,64]"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"step\":7", "\"step\":\"seven\""), "x"), UserError);
}

// Runs that were begun before there was a choice kept f32 moments.
TEST(RunState, WithoutAStateFormatHasTheFirst) {
    std::string text = run_state_text(example());
    const std::string entry = ",\"state_format\":\"s2\"";
    ASSERT_NE(text.find(entry), std::string::npos);
    text.erase(text.find(entry), entry.size());
    EXPECT_EQ(parse_run_state(text, "x").numerics.state_format, StateFormat::s1);
}

TEST(RunState, NamesEveryDifferenceThatChangesBits) {
    RunState other = example();
    other.seed = 1;
    other.numerics.micro_rows = 8;
    other.numerics.kernel_path = "avx512";
    other.numerics.state_format = StateFormat::s3;
    other.data_fingerprint = "xyz";
    other.param_groups = {"*norm*", "* train=false"};
    try {
        require_same_run(example(), other, "checkpoint-7");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        for (const char* part : {"checkpoint-7", "seed was 42, is 1", "per_device_train_batch_size was 4, is 8",
                                 "kernel path (WINDLASS_CPU) was avx2, is avx512", "state_format was s2, is s3",
                                 "param_groups was [], is [*norm*, * train=false]", "training rows was abc, is xyz"}) {
            EXPECT_THAT(error.what(), testing::HasSubstr(part));
        }
    }
    RunState later = example();
    later.step = 99;
    later.schedule.total_steps = 5;  // may change: it is not what the bits so far came from
    EXPECT_NO_THROW(require_same_run(example(), later, "x"));
}

// 3e19 and 2^63 are numbers, and no int64_t.
TEST(RunState, RefusesNumbersThatAreNoInteger) {
    const std::string good = run_state_text(example());
    for (const char* key : {"step", "epoch", "row", "tokens_total", "bad_steps", "applied_steps", "clipped_steps",
                            "micro_rows", "micro_count", "warmup_steps", "seed"}) {
        for (const char* value : {"3e19", "1.5", "-3e300", "18446744073709551616", "\"1\"", "true"}) {
            std::string text = good;
            const std::string start = fmt::format("\"{}\":", key);
            const size_t at = text.find(start) + start.size();
            ASSERT_LT(at, text.size()) << key;
            text.replace(at, text.find_first_of(",}", at) - at, value);
            EXPECT_THROW(parse_run_state(text, "here"), UserError) << key << " " << value;
        }
    }
    std::string text = good;
    const size_t at = text.find("\"tokens_total\":") + 15;
    text.replace(at, 5, "9223372036854775808");
    EXPECT_THROW(parse_run_state(text, "here"), UserError);
}

}  // namespace
}  // namespace windlass
