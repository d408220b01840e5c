// What a run's model makes of sample_prompts while it trains, and that steps do not notice.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "data/open_model.h"
#include "infer/generate.h"
#include "infer/inference.h"
#include "rows/prompt_ids.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class SamplesRun : public TrainTest {
  protected:
    static Settings sampled(Settings settings) {
        settings.merge(Settings{{"sample_prompts", "[abcd, \"the \"]"},
                                {"sample_steps", "5"},
                                {"sample_max_new_tokens", "6"},
                                {"gradient_checkpointing", "false"}});
        return settings;
    }
    std::vector<Json> samples(const std::string& run) const {
        std::vector<Json> found;
        std::istringstream text(bytes(run + "/samples.jsonl"));
        for (std::string line; std::getline(text, line);) found.push_back(Json::parse(line));
        return found;
    }
    // As `windlass generate` writes it.
    std::string continuation(const std::string& model, const std::string& prompt) {
        Config config = this->config("unused");
        config.model = at(model);
        OpenModel opened = open_model(files_, config);
        const std::vector<int32_t> ids = prompt_ids(opened.tokenizer, prompt, "prompt");
        const int64_t capacity = std::ssize(ids) + 6;
        Inference inference(files_, opened, config,
                            {.sequence_lengths = {1}, .schedules = decode_requests(std::ssize(ids), capacity)});
        const GenerateOptions options{.max_new_tokens = 6,
                                      .stop_ids = opened.tokenizer.eos_ids(),
                                      .vocab = std::min<int64_t>(opened.tokenizer.vocab_size(), opened.model.vocab)};
        StreamDecoder decoder(opened.tokenizer, true);
        std::string text;
        generate(inference.engine(), ids, options, [&](int32_t id) {
            text += decoder.push(id);
            return true;
        });
        return text + decoder.finish();
    }
};

TEST_F(SamplesRun, AreWhatGenerateWritesAndChangeNoBit) {
    const Settings kinds[] = {{},
                              {{"policy", "three_tier"}, {"update_time", "next_forward"}},
                              {{"device", "cpu:emulate"}, {"policy", "host_stream"}},
                              {{"method", "zeroth_order"}, {"learning_rate", "0.003"}}};
    for (const Settings& kind : kinds) {
        SCOPED_TRACE(testing::PrintToString(kind));
        Settings plain = kind, with = sampled(kind);
        plain["overwrite"] = with["overwrite"] = "true";
        run("plain", plain);
        run("sampled", with);
        EXPECT_EQ(history("sampled"), history("plain"));
        EXPECT_TRUE(bytes(std::string("sampled") + kWeights) == bytes(std::string("plain") + kWeights));
        const std::vector<Json> found = samples("sampled");
        ASSERT_EQ(found.size(), 6u) << "steps 5, 10 and 12";
        EXPECT_EQ(found[0]["step"], 5);
        EXPECT_EQ(found[5]["step"], 12);
        EXPECT_EQ(found[4]["prompt"], "abcd");
        EXPECT_EQ(found[4]["text"].get<std::string>(), continuation("sampled/final", "abcd"));
        EXPECT_EQ(found[5]["text"].get<std::string>(), continuation("sampled/final", "the "));
        EXPECT_FALSE(files_.exists(at("plain/samples.jsonl")));
    }
}

TEST_F(SamplesRun, RefusesAPromptThatTheModelHasNoRoomFor) {
    try {
        run("run", {{"sample_prompts", "[" + std::string(4000, 'a') + "]"}, {"sample_steps", "5"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sample_prompts: a text has 4000 tokens"));
    }
    EXPECT_FALSE(files_.exists(at("run/metrics.jsonl")));
}

}  // namespace
}  // namespace windlass
