// What a plan says would be cheaper: each line is a setting that can be typed, and is what planning with it says.
#include "session/cheaper.h"

#include <gmock/gmock.h>

#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "tests/train/compared.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

// 12 million parameters, of which there is config.json alone, on a desktop. Their state goes to disk by
// will, not by need: what a process takes is measured anew each time, and may not decide anything here.
class CheaperTest : public TrainTest {
  protected:
    void SetUp() override {
        files_.make_folders(at("wide"));
        write("wide/config.json",
              R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 4096,
                  "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 3, "num_attention_heads": 8,
                  "num_key_value_heads": 8, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
                  "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false,
                  "torch_dtype": "bfloat16"})");
    }
    Session prepare(const Settings& changes) {
        Settings settings = {{"model", at("wide")},       {"machine", "rtx4090-desktop"},
                             {"max_length", "512"},       {"per_device_train_batch_size", "2"},
                             {"device_memory", "100MiB"}, {"ram", "8GiB"},
                             {"policy", "three_tier"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        std::vector<std::string> words;
        for (const auto& [key, value] : settings) words.push_back(fmt::format("{}={}", key, value));
        const Config config = make_config(read_config_sources(files_, words), ConfigUse::plan).config;
        return prepare_session(files_, config, std::nullopt, ConfigUse::plan);
    }
    static double tokens_per_second(const Session& session) {
        return static_cast<double>(session.rows_per_step() * session.numerics().sequence_lengths.back()) /
               session.seconds_at_most();
    }
};

using Setting = std::pair<std::string, std::string>;

// "  key=value key=value  (words)"
Settings settings_in(const std::string& line) {
    std::istringstream words(line.substr(0, line.find("  (")));
    Settings settings;
    for (std::string word; words >> word;) settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return settings;
}

const Cheaper* find(const std::vector<Cheaper>& found, const std::string& key) {
    const auto it = std::ranges::find_if(
        found, [&](const Cheaper& each) { return each.settings.size() == 1 && each.settings[0].first == key; });
    return it == found.end() ? nullptr : &*it;
}

// A row is a first look: planning with it may find a little more, and hardly ever less.
testing::Matcher<double> is_as_a_first_look_says() {
    return AllOf(testing::Ge(0.98), testing::Le(1.15));
}

TEST_F(CheaperTest, EachLineIsWhatPlanningWithItSays) {
    const Session session = prepare({});
    ASSERT_GT(session.planned.disk_bytes, 0);
    const std::vector<Cheaper> found = find_cheaper(session, {});
    for (const char* key : {"state_format", "gradient_accumulation_steps", "policy"})
        EXPECT_NE(find(found, key), nullptr) << key;
    // Steps that wait for the disk take as long with more rows.
    EXPECT_GT(find(found, "gradient_accumulation_steps")->gain, 4);
    // A line of settings, which is typed behind "windlass plan", and one of figures; both within a terminal's width.
    std::istringstream text(cheaper_text(found));
    std::string line;
    std::getline(text, line);
    EXPECT_THAT(line, AllOf(StartsWith("Faster  "), HasSubstr(" gain  "), HasSubstr(" a step  ")));
    for (const Cheaper& each : found) {
        std::getline(text, line);
        EXPECT_LE(line.size(), 100u) << line;
        const Session followed = prepare(settings_in(line));
        EXPECT_THAT(tokens_per_second(followed) / each.tokens_per_second(), is_as_a_first_look_says()) << line;
        EXPECT_NEAR(each.gain, each.tokens_per_second() / tokens_per_second(session), 1e-9);
        EXPECT_GE(each.gain, 1.1);
        std::getline(text, line);
        EXPECT_LE(line.size(), 80u) << line;
        EXPECT_THAT(line, HasSubstr(fmt::format(" {:.3g} x  ", each.gain)));
    }
    EXPECT_FALSE(std::getline(text, line)) << line;
    EXPECT_THAT(cheaper_text(found), HasSubstr("  (32 rows a step, not 2)\n"));
    EXPECT_GE(found.back().settings.size(), 2u) << "all together comes last";
}

// Methods, adapters and numerics too: each row may be typed, and takes about as long as it says.
TEST_F(CheaperTest, EachRowWorksWhenTyped) {
    const Settings decided = {{"policy", "auto"},
                              {"device_memory", "200MiB"},
                              {"gradient_format", "bf16"},
                              {"update_time", "after_backward"},
                              {"dtype", "f32"}};
    for (const Settings& settings : {Settings{}, decided}) {
        const Session session = prepare(settings);
        const std::vector<Cheaper> found = find_cheaper(session, compare_methods(session));
        ASSERT_GE(found.size(), 3u);
        for (const Cheaper& each : found) {
            Settings typed = settings;
            for (const auto& [key, value] : each.settings) typed[key] = value;
            SCOPED_TRACE(settings_words(each.settings));
            const Session followed = prepare(typed);
            EXPECT_THAT(each.step_seconds / followed.seconds_at_most(), is_as_a_first_look_says());
        }
    }
}

TEST_F(CheaperTest, AnAdapterWhereFullTrainingTakesTwiceAsLong) {
    const auto rows = [&](const Settings& settings) {
        const Session session = prepare(settings);
        std::vector<std::string> words;
        for (const Cheaper& each : cheaper_methods(session, compare_methods(session)))
            words.push_back(fmt::format("{} ({})", settings_words(each.settings), each.changes));
        return words;
    };
    const std::vector<std::string> slow = rows({});
    EXPECT_THAT(slow, Contains("adapter=lora policy=auto (trains an adapter)"));
    EXPECT_THAT(slow, Contains("adapter=qlora policy=auto (trains an adapter, over weights in 4 bits)"));
    // Nothing waits for anything; what trains some parameters, or an adapter already, is offered none.
    for (const Settings& settings : {Settings{{"policy", "auto"}, {"device_memory", "8GiB"}},
                                     Settings{{"freeze", "[\"*norm*\"]"}}, Settings{{"adapter", "lora"}}})
        EXPECT_THAT(rows(settings), Each(Not(HasSubstr("adapter="))));
}

// f32 files are computed with in f32, and half the bytes would do.
TEST_F(CheaperTest, Bf16WhereFilesAreF32) {
    std::string text = read_text(files_, at("wide/config.json"), 4096);
    text.replace(text.find("bfloat16"), 8, "float32");
    write("wide/config.json", text);
    const Session session = prepare({{"policy", "auto"}, {"device_memory", "8GiB"}});
    ASSERT_EQ(session.numerics().compute, DType::f32);
    const std::vector<Cheaper> all = find_cheaper(session, {});
    const Cheaper* const found = find(all, "dtype");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->settings[0].second, "bf16");
    EXPECT_EQ(found->changes, "computes in bf16, not f32: other losses");
    const Session followed = prepare({{"policy", "auto"}, {"device_memory", "8GiB"}, {"dtype", "bf16"}});
    EXPECT_EQ(followed.numerics().compute, DType::bf16);
    EXPECT_NEAR(followed.seconds_at_most() / found->step_seconds, 1, 1e-6);
    EXPECT_EQ(find(find_cheaper(followed, {}), "dtype"), nullptr);
}

TEST_F(CheaperTest, WhatTheUserDecidedIsGivenBack) {
    const Session session = prepare({{"policy", "auto"},
                                     {"device_memory", "8GiB"},
                                     {"gradient_checkpointing", "true"},
                                     {"per_device_train_batch_size", "16"}});
    const std::vector<Cheaper> all = find_cheaper(session, {});
    const Cheaper* const found = find(all, "gradient_checkpointing");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->settings[0].second, "auto");
    EXPECT_EQ(found->changes, "");
}

TEST_F(CheaperTest, MoreOfTheDevice) {
    const Session session = prepare({{"policy", "auto"}});
    const std::vector<Cheaper> all = find_cheaper(session, {});
    const Cheaper* const found = find(all, "device_memory");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->settings[0].second, "90%");
    EXPECT_GT(found->planned.device_bytes, session.request.budgets.device);
}

// A rate of large products says too little of kernels that nobody measured.
TEST_F(CheaperTest, NoMicroBatchesOfSizesThatWereNotMeasured) {
    Session session = prepare({{"policy", "auto"},
                               {"device_memory", "8GiB"},
                               {"per_device_train_batch_size", "1"},
                               {"gradient_accumulation_steps", "4"},
                               {"max_length", "16"}});
    const auto has_rows = [&](const std::vector<Cheaper>& found) {
        return std::ranges::any_of(found, [](const Cheaper& each) {
            return std::ranges::count(each.settings, "per_device_train_batch_size", &Setting::first) > 0;
        });
    };
    EXPECT_TRUE(has_rows(find_cheaper(session, {})));
    session.machine.kernels["linear forward bf16 8x8 32"] = 1e12;
    EXPECT_FALSE(has_rows(find_cheaper(session, {})));
}

TEST_F(CheaperTest, AnotherMethodWhereItLearnsSooner) {
    Session session = prepare({});
    const double seconds = session.planned.mean_seconds;
    MethodAdvice own{.method = "adamw", .weight_storage = "as_file", .planned = Planned{}}, fast = own;
    fast.method = "zeroth_order";
    fast.steps_factor = 32;
    fast.planned->mean_seconds = seconds / 64;
    const std::vector<Cheaper> found = cheaper_methods(session, {own, fast});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NEAR(found[0].gain, 2, 1e-9);
    EXPECT_EQ(settings_words(found[0].settings), "method=zeroth_order policy=auto");
    fast.planned->mean_seconds = seconds / 33;
    EXPECT_TRUE(cheaper_methods(session, {own, fast}).empty());
}

TEST_F(CheaperTest, TheShareOfADevicesMemoryIsSaid) {
    const Session desktop = prepare({{"device_memory", "null"}});
    EXPECT_EQ(desktop.request.budgets.device, desktop.machine.device_memory_bytes / 2);
    EXPECT_THAT(desktop.notes, Contains(HasSubstr("device_memory is 50 % of the device's 24.00 GiB, since a display")));
    const Session server = prepare({{"device_memory", "null"}, {"machine", "rtx4090-server-12gen4"}});
    EXPECT_NEAR(static_cast<double>(server.request.budgets.device),
                0.9 * static_cast<double>(server.machine.device_memory_bytes), 1);
    EXPECT_THAT(server.notes,
                Contains(HasSubstr("device_memory is 90 % of the device's 24.00 GiB, which has no display")));
    EXPECT_THAT(prepare({}).notes, Each(Not(HasSubstr("device_memory"))));
}

TEST(Cheaper, NothingToSay) {
    EXPECT_THAT(cheaper_text({}), HasSubstr("no other setting"));
}

}  // namespace
}  // namespace windlass
