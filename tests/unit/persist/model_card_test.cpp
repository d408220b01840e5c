#include "persist/model_card.h"

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include "base/file_error.h"
#include "format/replaceable_folder.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RunState state_of_card() {
    RunState state;
    state.identity.method = "adamw";
    state.identity.seed = 7;
    state.identity.settings = {{"adapter", "lora"},       {"lora_r", "8"},       {"lora_alpha", "16"},
                               {"weight_decay", "0.1"},   {"adam_beta1", "0.9"}, {"adam_beta2", "0.999"},
                               {"adam_epsilon", "1e-08"}, {"max_grad_norm", "1"}};
    state.identity.numerics = {.micro_batch_size = 2, .micro_batches = 3, .sequence_lengths = {32, 64}};
    state.identity.schedule = {.peak = 0.0002, .total_steps = 20, .warmup_steps = 2};
    state.progress.step = 10;
    state.progress.tokens_total = 1234;
    state.progress.last_loss = 1.5;
    return state;
}

// What a reader of YAML makes of the text between the first two lines "---".
YAML::Node front_matter_of(const std::string& card) {
    EXPECT_TRUE(card.starts_with("---\n"));
    const size_t end = card.find("\n---\n", 3);
    EXPECT_NE(end, card.npos);
    return YAML::Load(card.substr(4, end - 3));
}

std::string body_of(const std::string& card) {
    return card.substr(card.find("\n---\n", 3) + 5);
}

TEST(ModelCard, SaysWhatTheStateSays) {
    const CardSource source{.base_id = "some/tiny",
                            .base_revision = "1a2b",
                            .base_readme = "---\nlanguage: en\nlicense: apache-2.0\n---\n# Tiny\n",
                            .data = {"/rows/me/rows.jsonl", "more.csv"},
                            .objective = "dpo",
                            .is_adapter = true,
                            .has_chat_template = true};
    const std::string card = model_card(source, state_of_card());
    const YAML::Node head = front_matter_of(card);
    EXPECT_EQ(head.size(), 4u);
    EXPECT_EQ(head["base_model"].as<std::string>(), "some/tiny");
    EXPECT_EQ(head["library_name"].as<std::string>(), "peft");
    EXPECT_EQ(head["license"].as<std::string>(), "apache-2.0");
    EXPECT_EQ(head["tags"].as<std::vector<std::string>>(),
              (std::vector<std::string>{"windlass", "adamw", "lora", "dpo"}));
    EXPECT_THAT(body_of(card),
                AllOf(HasSubstr("# Adapter of some/tiny\n"), HasSubstr("| data | rows.jsonl, more.csv |"),
                      HasSubstr("| adapter | lora, rank 8, alpha 16 |"), HasSubstr("| steps | 10 of 20 |"),
                      HasSubstr("| rows in a step | 6 |"), HasSubstr("| tokens | 1234 |"),
                      HasSubstr("| sequence length | 64 |"), HasSubstr("| training loss of the last step | 1.5000 |"),
                      HasSubstr("| learning rate | 0.0002, linear, 2 warmup steps |"), HasSubstr("adam\\_beta1 0.9"),
                      HasSubstr("windlass chat FOLDER"), HasSubstr("AutoPeftModelForCausalLM"), HasSubstr(kCardMark)));
    EXPECT_THAT(card, Not(HasSubstr("/rows/me")));
    EXPECT_EQ(card, model_card(source, state_of_card()));
}

TEST(ModelCard, LeavesOutWhatIsNotKnown) {
    RunState state = state_of_card();
    state.identity.settings = {{"adapter", "null"}, {"weight_decay", "0"}, {"max_grad_norm", "1"}};
    state.identity.method = "mezo";
    const std::string card = model_card({}, state);
    const YAML::Node head = front_matter_of(card);
    EXPECT_EQ(head.size(), 2u);
    EXPECT_EQ(head["library_name"].as<std::string>(), "transformers");
    EXPECT_EQ(head["tags"].as<std::vector<std::string>>(), (std::vector<std::string>{"windlass", "mezo"}));
    EXPECT_THAT(body_of(card),
                AllOf(HasSubstr("# Fine-tuned model\n"), HasSubstr("AutoModelForCausalLM"), Not(HasSubstr("| data |")),
                      Not(HasSubstr("| base |")), Not(HasSubstr("adam\\_")), Not(HasSubstr("evaluation"))));
}

TEST(ModelCard, AnEvaluationIsThatOfItsStep) {
    RunState state = state_of_card();
    state.progress.best = {.metric = "loss", .step = 10, .value = 1.25};
    EXPECT_THAT(model_card({}, state), HasSubstr("| evaluation (loss) | 1.2500 |"));
    state.progress.best.step = 5;
    EXPECT_THAT(model_card({}, state), Not(HasSubstr("evaluation")));
}

TEST(ModelCard, NamesAreTextWhateverTheyHold) {
    const std::string hostile = "a\n---\ninjected: \"yes\" <script>alert(1)</script> | `x` [y](z) \x1b[2J \x9b";
    RunState state = state_of_card();
    state.identity.method = state.identity.settings["adapter"] = state.identity.settings["lora_r"] = hostile;
    for (const std::string& name : {hostile, std::string("# x\r\n\r\n* y"), std::string(100'000, '<')}) {
        const std::string card =
            model_card({.base_id = name, .base_revision = name, .data = {name}, .objective = name}, state);
        const YAML::Node head = front_matter_of(card);
        EXPECT_EQ(head.size(), 3u) << card;
        EXPECT_FALSE(head["injected"]);
        EXPECT_THAT(body_of(card), AllOf(Not(HasSubstr("\n---\n")), Not(HasSubstr(" <script")), Not(HasSubstr("\x1b")),
                                         Not(HasSubstr("\n#  x")), Not(HasSubstr(" `x`"))));
        EXPECT_LT(card.size(), size_t{700'000});
    }
    EXPECT_EQ(front_matter_of(model_card({.base_id = "a\n\"b: \\"}, state))["base_model"].as<std::string>(),
              "a\n\"b: \\");
}

TEST(ModelCard, TakesOnlyAPlainLicence) {
    const auto licence_in = [](const std::string& readme) {
        const YAML::Node head = front_matter_of(model_card({.base_readme = readme}, state_of_card()));
        return head["license"] ? head["license"].as<std::string>() : std::string("none");
    };
    EXPECT_EQ(licence_in("---\nlicense: mit\n---\n"), "mit");
    EXPECT_EQ(licence_in("---\r\nlicense: \"llama3.1\"\r\n---\r\n"), "llama3.1");
    for (const char* readme :
         {"", "license: mit\n", "# x\n---\nlicense: mit\n---\n", "---\nlanguage: en\n---\nlicense: mit\n",
          "---\nlicense:\n- mit\n---\n", "---\nlicense: [mit, x]\n---\n", "---\nlicense: &a mit\nx: *a\n---\n",
          "---\n license: mit\n---\n", "---\nlicense: \"a\\nb\"\n---\n", "---\nlicense: {a: b}\n---\n"})
        EXPECT_TRUE(licence_in(readme) == "none" || std::string_view(readme).find('&') != std::string_view::npos)
            << readme;
    EXPECT_EQ(licence_in("---\nlicense: " + std::string(100'000, 'x') + "\n---\n"), "none");
    const YAML::Node other = front_matter_of(
        model_card({.base_readme = "---\nlicense: other\nlicense_name: own\nlicense_link: https://a.b/c\n---\n"},
                   state_of_card()));
    EXPECT_EQ(other["license_name"].as<std::string>(), "own");
    EXPECT_EQ(other["license_link"].as<std::string>(), "https://a.b/c");
}

}  // namespace
}  // namespace windlass
