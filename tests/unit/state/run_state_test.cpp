#include "state/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace windlass {
namespace {

RunState example() {
    return {.identity = {.seed = 42,
                         .method = "adamw",
                         .data_fingerprint = "abc",
                         .numerics = {.compute = DType::bf16,
                                      .micro_batch_size = 4,
                                      .micro_batches = 2,
                                      .sequence_lengths = {64, 256},
                                      .kernel_path = "avx2",
                                      .state_format = StateFormat::bf16,
                                      .gradient_format = GradientFormat::i8},
                         .schedule = {.type = "cosine", .peak = 3e-5, .total_steps = 100, .warmup_steps = 10}},
            .progress = {.step = 7,
                         .position = {2, 11},
                         .tokens_total = 12345,
                         .last_loss = 1.0 / 3.0,
                         .bad_steps = 1,
                         .applied_steps = 6,
                         .clipped_steps = 2}};
}

std::string refusal(const Identity& was, const Identity& is, const std::vector<std::string>& allowed = {}) {
    try {
        require_same_run(was, is, allowed, "checkpoint-7");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(RunState, ReadsBackAsItWas) {
    const RunState state = example();
    const RunState read = parse_run_state(run_state_text(state), "here");
    EXPECT_EQ(run_state_text(read), run_state_text(state));
    EXPECT_EQ(read.identity.numerics, state.identity.numerics);
    EXPECT_EQ(read.identity.schedule, state.identity.schedule);
    EXPECT_EQ(read.progress.position, state.progress.position);
    EXPECT_EQ(read.progress.last_loss, state.progress.last_loss);
}

TEST(RunState, KnowsItsBestStepToTheBit) {
    RunState state = example();
    EXPECT_EQ(run_state_text(state).find("\"best\""), std::string::npos) << "of runs that compare no steps";
    state.progress.best = {.metric = "loss", .step = 4, .value = 1.0 / 3.0, .misses = 1, .judged = 6};
    const std::string text = run_state_text(state);
    EXPECT_EQ(parse_run_state(text, "here").progress.best, state.progress.best);
    std::string later = text;
    later.replace(later.find("\"judged\":6"), 10, "\"judged\":8");
    EXPECT_THROW(parse_run_state(later, "here"), UserError) << "an evaluation behind the last step";
}

TEST(RunState, KnowsItsParameterGroups) {
    RunState state = example();
    state.identity.param_groups = {"*norm* weight_decay=0.1", "* train=false"};
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").identity.param_groups, state.identity.param_groups);
}

TEST(RunState, KnowsTheScalesOfWeightsIn8Bits) {
    RunState state = example();
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").identity.weight_storage, "as_file");
    state.identity.weight_storage = "f8";
    state.identity.scale_exponents = {-11, 0, 7};
    const RunState read = parse_run_state(run_state_text(state), "here");
    EXPECT_EQ(read.identity.weight_storage, "f8");
    EXPECT_EQ(read.identity.scale_exponents, state.identity.scale_exponents);
    EXPECT_THAT(refusal(read.identity, example().identity), testing::HasSubstr("weight_storage was f8, is as_file"));
    std::string text = run_state_text(state);
    text.replace(text.find("\"f8\""), 4, "\"f4\"");
    EXPECT_THROW(parse_run_state(text, "x"), UserError);
}

TEST(RunState, KnowsWeightsIn4BitsWhichHaveNoScalesBesideThem) {
    RunState state = example();
    state.identity.weight_storage = "nf4";
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").identity.weight_storage, "nf4");
    state.identity.scale_exponents = {-11};
    EXPECT_THROW(parse_run_state(run_state_text(state), "here"), UserError);
}

TEST(RunState, KnowsWhenUpdatesAreFolded) {
    RunState state = example();
    EXPECT_EQ(parse_run_state(run_state_text(state), "here").identity.merge_updates, "each_step");
    state.identity.merge_updates = "never";
    std::string text = run_state_text(state);
    EXPECT_EQ(parse_run_state(text, "here").identity.merge_updates, "never");
    EXPECT_THAT(refusal(state.identity, example().identity),
                testing::HasSubstr("merge_updates was never, is each_step"));
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
    EXPECT_THROW(parse_run_state(with("\"bf16\"", "\"f8\""), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"micro_rows\":4", "\"micro_rows\":-4"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"state_format\":\"bf16\"", "\"state_format\":\"s9\""), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"gradient_format\":\"i8\"", "\"gradient_format\":\"i9\""), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"clipped_steps\":2", "\"clipped_steps\":7"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("[64,256]", "[256,64]"), "x"), UserError);
    EXPECT_THROW(parse_run_state(with("\"step\":7", "\"step\":\"seven\""), "x"), UserError);
}

// Before anything else of it is read.
TEST(RunState, OfAnotherFormatSaysWhatWroteItAndWhatIsRead) {
    const auto refusal_of = [](const std::string& text) -> std::string {
        try {
            parse_run_state(text, "checkpoint-7");
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal_of(run_state_text(example())), "");
    EXPECT_THAT(
        refusal_of(R"({"format":3,"steps":7})"),
        testing::AllOf(testing::HasSubstr("checkpoint-7: was written by a version of Windlass whose runs are of "
                                          "format 3; this program reads format 1"),
                       testing::HasSubstr("Try: ")));
    for (const char* text : {"{}", R"({"format":"windlass run state","version":1,"step":4})"})
        EXPECT_THAT(refusal_of(text), testing::HasSubstr("an older build of Windlass, which recorded no format"));
}

TEST(Identity, NamesEveryDifferenceThatChangesBits) {
    const Identity was = example().identity;
    Identity other = was;
    other.seed = 1;
    other.numerics.micro_batch_size = 8;
    other.numerics.kernel_path = "avx512";
    other.numerics.state_format = StateFormat::int8;
    other.numerics.gradient_format = GradientFormat::bf16;
    other.data_fingerprint = "xyz";
    other.param_groups = {"*norm*", "* train=false"};
    for (const char* part : {"checkpoint-7", "seed was 42, is 1", "per_device_train_batch_size was 4, is 8",
                             "kernel path (WINDLASS_CPU) was avx2, is avx512", "state_format was bf16, is int8",
                             "gradient_format was i8, is bf16", "param_groups was [], is [*norm*, * train=false]",
                             "training rows was abc, is xyz"})
        EXPECT_THAT(refusal(was, other), testing::HasSubstr(part));
    Identity longer = was;
    longer.schedule.total_steps = 5;  // may change: it is not what the bits so far came from
    EXPECT_THAT(differences(was, longer), testing::IsEmpty()) << "its settings say it";
    Identity renamed = was;
    renamed.run_id = "0123";
    EXPECT_THAT(differences(was, renamed), testing::IsEmpty());
}

TEST(Identity, NamesTheKeysOfConfigJsonThatDiffer) {
    RunState state = example();
    state.identity.model_config = {{"rms_norm_eps", "1e-05"}, {"hidden_act", "silu"}};
    const Identity was = parse_run_state(run_state_text(state), "here").identity;
    EXPECT_EQ(refusal(was, state.identity), "");
    Identity is = was;
    is.model_config = {{"rms_norm_eps", "0.1"}, {"hidden_act", "silu"}, {"sliding_window", "8"}};
    EXPECT_THAT(refusal(was, is),
                testing::HasSubstr("run: rms_norm_eps (config.json) was 1e-05, is 0.1; sliding_window (config.json) "
                                   "was absent, is 8. Try: the run's own settings"));
    is.model_config.clear();
    EXPECT_EQ(refusal(was, is), "") << "a log says nothing of it";
}

TEST(Identity, NamesOtherRowsThatABestStepIsFoundWith) {
    RunState state = example();
    state.identity.eval_fingerprint = "rows-a, 3 of them";
    const Identity was = parse_run_state(run_state_text(state), "here").identity;
    Identity is = was;
    is.eval_fingerprint = "rows-b, 5 of them";
    EXPECT_THAT(refusal(was, is), testing::HasSubstr("run: evaluation rows was rows-a, 3 of them, is rows-b, 5 of "
                                                     "them. Try: the run's own settings (run.yaml), a new output_dir, "
                                                     "or allow_changed_settings: [eval_data]"));
    EXPECT_THAT(require_same_run(was, is, std::vector<std::string>{"eval_data"}, "x"),
                testing::ElementsAre("evaluation rows was rows-a, 3 of them, is rows-b, 5 of them"));
    is.eval_fingerprint.clear();
    EXPECT_EQ(refusal(was, is), "") << "no step is compared any more";
    take_from_before(was, 7, is);
    EXPECT_EQ(is.eval_fingerprint, was.eval_fingerprint) << "and may be again";
}

TEST(Identity, NamesTheLibraryOrTheTableThatComputesOtherwise) {
    RunState state = example();
    state.identity.coefficients = {.products = "avx2", .library = "oneDNN 2.6.3", .rope = "12ab", .libm = "34cd"};
    const Identity was = parse_run_state(run_state_text(state), "here").identity;
    EXPECT_EQ(refusal(was, state.identity), "");
    for (const auto& [member, words] :
         {std::pair(&Coefficients::products, "instruction set of matrix products was avx2, is new"),
          {&Coefficients::library, "library of matrix products was oneDNN 2.6.3, is new"},
          {&Coefficients::rope, "checksum of rope frequencies (config.json) was 12ab, is new"},
          {&Coefficients::libm, "checksum of the C library's pow, cos, exp and log was 34cd, is new"}}) {
        Identity other = was;
        other.coefficients.*member = "new";
        EXPECT_THAT(refusal(was, other), testing::HasSubstr(words));
    }
}

// Another version of oneDNN rounds otherwise.
TEST(Identity, NamesTheVersionOfTheLibraryThatMultiplies) {
    Identity was = example().identity;
    was.coefficients = {.products = "avx2", .library = "oneDNN 2.6.3"};
    Identity is = was;
    is.coefficients.library = "oneDNN 3.7.2";
    EXPECT_THAT(
        refusal(was, is),
        testing::AllOf(testing::HasSubstr("run: library of matrix products was oneDNN 2.6.3, is oneDNN 3.7.2. "),
                       testing::HasSubstr("allow_changed_settings: [kernels]")));
    EXPECT_THAT(require_same_run(was, is, std::vector<std::string>{"kernels"}, "x"),
                testing::ElementsAre("library of matrix products was oneDNN 2.6.3, is oneDNN 3.7.2"));
    EXPECT_THAT(kernels_before(was, is, 7), testing::ElementsAre("until step 7: avx2, avx2, oneDNN 2.6.3"));
}

TEST(Identity, FollowsWhatIsAllowedByNameAndWhatMayChange) {
    Identity was = example().identity;
    was.settings = {{"weight_decay", "0.1"}, {"adam_beta1", "0.9"}, {"learning_rate", "1"}, {"noise", "gaussian"}};
    Identity is = was;
    is.settings = {{"weight_decay", "0"}, {"adam_beta1", "0.8"}, {"learning_rate", "2"}, {"zo_eps", "3"}};
    EXPECT_THAT(refusal(was, is, {"weight_decay"}),
                testing::AllOf(testing::HasSubstr("run: adam_beta1 was 0.9, is 0.8. Try"),
                               testing::HasSubstr("allow_changed_settings: [adam_beta1, weight_decay]")));
    EXPECT_THAT(
        require_same_run(was, is, std::vector<std::string>{"weight_decay", "adam_beta1"}, "x"),
        testing::ElementsAre("adam_beta1 was 0.9, is 0.8", "learning_rate was 1, is 2", "weight_decay was 0.1, is 0"));
    is.settings["noise"] = "rademacher";  // nothing allows it
    EXPECT_THAT(refusal(was, is, {"weight_decay", "noise"}),
                testing::AllOf(testing::HasSubstr("run: adam_beta1 was 0.9, is 0.8; noise was gaussian, is rademacher"),
                               testing::Not(testing::HasSubstr("allow_changed_settings"))));
    is.settings = was.settings;
    is.numerics.kernel_path = "sm_90";
    is.coefficients.products = "cublasLt 13.1.0";
    EXPECT_THAT(refusal(was, is), testing::HasSubstr("allow_changed_settings: [kernels]"));
    is.coefficients.rope = was.coefficients.rope;
    EXPECT_THAT(require_same_run(was, is, std::vector<std::string>{"kernels"}, "x"),
                testing::Contains("kernel path (WINDLASS_CPU) was avx2, is sm_90"));
    EXPECT_THAT(kernels_before(was, was, 7), testing::IsEmpty());
    is.kernels_before = kernels_before(was, is, 7);
    EXPECT_THAT(kernels_before(is, was, 9),
                testing::ElementsAre("until step 7: avx2, ", "until step 9: sm_90, cublasLt 13.1.0"));
    is.numerics = was.numerics;
    is.coefficients = was.coefficients;
    // A log's records say each step's decay, and its header the rest.
    was.method = is.method = "zeroth_order";
    is.settings = {{"weight_decay", "0"}, {"max_grad_norm", "7"}};
    was.settings["max_grad_norm"] = "1";
    EXPECT_THAT(require_same_run(was, is, {}, "x"), testing::ElementsAre("weight_decay was 0.1, is 0"));
    is.settings = {{"adam_beta1", "0.8"}};
    EXPECT_THAT(refusal(was, is, {"adam_beta1"}), testing::HasSubstr("adam_beta1 was 0.9, is 0.8"));
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

TEST(Identity, RefusesAnotherBaseUnderWhatIsTrained) {
    RunState state = example();
    state.identity.base_checksum = "0123456789abcdef";
    const Identity was = parse_run_state(run_state_text(state), "x").identity;
    EXPECT_EQ(was.base_checksum, "0123456789abcdef");
    Identity is = was;
    EXPECT_NO_THROW(require_same_base(was, is, "models/base"));
    is.base_checksum = "fedcba9876543210";
    try {
        require_same_base(was, is, "models/base");
        FAIL() << "another base was taken";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::model);
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("models/base"),
                                                 testing::HasSubstr("fedcba9876543210, expected "
                                                                    "0123456789abcdef"),
                                                 testing::HasSubstr("the model folder that the run began with")));
    }
    EXPECT_NO_THROW(require_same_base(example().identity, is, "models/base")) << "nothing was recorded";
}

}  // namespace
}  // namespace windlass
