// What people get wrong with chats, templates, pairs of answers and new families: one message each, with a way out that
// is followed.
#include "tests/cli/first_hour.h"

namespace windlass::cli {
namespace {

class FirstHourChats : public testing::TestWithParam<Tried> {};

TEST_P(FirstHourChats, EndInTheResultOrInHelp) {
    expect_it_helps(GetParam());
}

constexpr const char* kTriedTemplate =
    "{% for m in messages %}{% if m['role'] == 'assistant' %}A:{{ m['content'] }}{{ eos_token }}"
    "{% else %}U:{{ m['content'] }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}";
constexpr const char* kTriedRow =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

constexpr const char* kTriedAlpaca = R"({"instruction": "a", "output": "b"})";

// `windlass data show` of this row and a good one through a template, with these words behind it.
std::function<Command(Sandbox&)> shown(const std::string& row, const std::vector<std::string>& more = {},
                                       const std::string& text = kTriedTemplate) {
    return [=](Sandbox& sandbox) {
        const std::string model = sandbox.model();
        write_bytes(model + "/chat_template.jinja", text);
        const bool is_alpaca = row.find("instruction") != row.npos;
        std::vector<std::string> words = {
            "data", "show",         "--model",
            model,  "--train-data", sandbox.rows("rows.jsonl", {row, is_alpaca ? kTriedAlpaca : kTriedRow})};
        words.insert(words.end(), more.begin(), more.end());
        return sandbox.windlass(words);
    };
}
std::function<Command(Sandbox&, const Finished&)> then_shown(const std::string& row,
                                                             const std::vector<std::string>& more = {},
                                                             const std::string& text = kTriedTemplate) {
    const auto attempt = shown(row, more, text);
    return [=](Sandbox& sandbox, const Finished&) { return attempt(sandbox); };
}

std::string messages(const std::string& list, const std::string& more = "") {
    return R"({"messages": )" + list + more + "}";
}
std::string asked(const std::string& answer) {
    return messages(R"([{"role": "user", "content": "a"}, )" + answer + "]");
}
const std::string kAnswer = R"({"role": "assistant", "content": "b"})";

std::vector<Tried> chat_messages() {
    const int data = kData;
    return {
        {"AnUnknownRole",
         shown(asked(R"({"role": "robot", "content": "b"})")),
         data,
         {"rows.jsonl:1: message 2: there is no role \"robot\"", "Try: system, user, assistant or tool"},
         then_shown(kTriedRow)},
        {"ARoleThatIsANumber",
         shown(asked(R"({"role": 1, "content": "b"})")),
         data,
         {"message 2: \"role\" is number and not a string", "Try: \"role\": \"text\""},
         then_shown(kTriedRow)},
        {"NoRole",
         shown(asked(R"({"content": "b"})")),
         data,
         {"message 2: has neither \"role\" nor \"from\"", "Try: {\"role\": \"user\""},
         then_shown(kTriedRow)},
        {"NoContent",
         shown(asked(R"({"role": "assistant"})")),
         data,
         {"message 2: has neither \"content\" nor \"value\""},
         then_shown(kTriedRow)},
        {"AMessageThatIsText",
         shown(messages(R"(["a", "b"])")),
         data,
         {"message 1: is string and not an object", "Try: {\"role\": \"user\""},
         then_shown(kTriedRow)},
        {"MessagesThatAreText",
         shown(messages("\"a\"")),
         data,
         {"rows.jsonl:1: \"messages\" is string and not a list", "Try: \"messages\": [{\"role\""},
         then_shown(kTriedRow)},
        {"NoMessages",
         shown(messages("[]")),
         data,
         {"the conversation has no message", "Try: a question and an answer"},
         then_shown(kTriedRow)},
    };
}

std::vector<Tried> chat_answers() {
    const int data = kData;
    return {
        {"NoAnswer",
         shown(messages(R"([{"role": "user", "content": "a"}])")),
         data,
         {"no message is an assistant's", "Try: train_turns: all"},
         then_shown(messages(R"([{"role": "user", "content": "a"}])"), {"--train-turns", "all"})},
        {"TrainInQuotes",
         shown(asked(R"({"role": "assistant", "content": "b", "train": "no"})")),
         data,
         {"message 2: \"train\" is not true or false", "Try: \"train\": false"},
         then_shown(messages(R"([{"role": "user", "content": "a"}, )" + kAnswer +
                             R"(, {"role": "assistant", "content": "b", "train": false}])"))},
        {"AWeightOfAHalf",
         shown(asked(R"({"role": "assistant", "content": "b", "weight": 0.5})")),
         data,
         {"message 2: \"weight\" is neither 0 nor 1", "Try: \"weight\": 0"},
         then_shown(asked(R"({"role": "assistant", "content": "b", "weight": 1})"))},
        {"TrainOfAQuestion",
         shown(messages(R"([{"role": "user", "content": "a", "train": true}, )" + kAnswer + "]")),
         data,
         {"message 1: \"train\" is true of a message that no model writes", "Try: train_turns: all"},
         then_shown(kTriedRow, {"--train-turns", "all"})},
        {"NoAnswerMayBeLearned",
         shown(asked(R"({"role": "assistant", "content": "b", "train": false})")),
         data,
         {"none of the answers may be learned", "Try: \"train\" true"},
         then_shown(asked(R"({"role": "assistant", "content": "b", "train": true})"))},
    };
}

std::vector<Tried> chat_calls() {
    const int data = kData;
    return {
        {"ACallThatIsText",
         shown(asked(R"({"role": "assistant", "tool_calls": ["go"]})")),
         data,
         {"a tool call is string and not an object", "Try: {\"name\""},
         then_shown(kTriedRow)},
        {"AFunctionThatIsText",
         shown(asked(R"({"role": "assistant", "tool_calls": [{"function": "go"}]})")),
         data,
         {"a tool call is string and not an object"},
         then_shown(kTriedRow)},
        {"ASharegptCallOfNothing",
         shown(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call"}]})"),
         data,
         {"message 2: the call has no \"value\"", "Try: {\"name\""},
         then_shown(kTriedRow)},
        {"ToolsThatAreANumber",
         shown(messages("[" + kAnswer + "]", R"(, "tools": 3)")),
         data,
         {"\"tools\" is number and not a list", "Try: \"tools\": [{\"type\": \"function\""},
         then_shown(kTriedRow)},
        {"AToolThatIsText",
         shown(messages("[" + kAnswer + "]", R"(, "tools": ["go"])")),
         data,
         {"a tool is string and not an object"},
         then_shown(kTriedRow)},
        {"ToolsThatAreNoJson",
         shown(messages("[" + kAnswer + "]", R"(, "tools": "[{")")),
         data,
         {"rows.jsonl:1: tools"},
         then_shown(messages("[" + kAnswer + "]", R"(, "tools": "[{")"), {"--skip-malformed", "true"})},
    };
}

std::vector<Tried> other_chat_rows() {
    const int data = kData;
    return {
        {"HistoryThatIsText",
         shown(R"({"instruction": "a", "output": "b", "history": "c"})"),
         data,
         {"\"history\" is not a list", "Try: \"history\": [["},
         then_shown(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})")},
        {"HistoryOfThree",
         shown(R"({"instruction": "a", "output": "b", "history": [["c", "d", "e"]]})"),
         data,
         {"\"history\" is not a list of pairs", "Try: \"history\": [["},
         then_shown(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})")},
        {"AnotherNameOfTheMessages",
         shown(R"({"dialog": [{"role": "user", "content": "a"}]})"),
         data,
         {"rows.jsonl:1"},
         then_shown(R"({"dialog": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
                    {"--messages-field", "dialog"})},
    };
}
INSTANTIATE_TEST_SUITE_P(Messages, FirstHourChats, testing::ValuesIn(chat_messages()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Answers, FirstHourChats, testing::ValuesIn(chat_answers()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Calls, FirstHourChats, testing::ValuesIn(chat_calls()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(OtherRows, FirstHourChats, testing::ValuesIn(other_chat_rows()), name_of_tried);

std::string broken(const char* text) {
    return std::string(text) + kTriedTemplate;
}

std::vector<Tried> chat_templates() {
    const auto mended = then_shown(kTriedRow);
    return {
        {"ATemplateFileThatIsNotThere",
         shown(kTriedRow, {"--chat-template", "@none.jinja"}),
         kUsage,
         {"chat_template: there is no file", "Try: auto"},
         then_shown(kTriedRow, {"--chat-template", "auto"})},
        {"ATagThatIsNotClosed",
         shown(kTriedRow, {}, "{% if a %}x"),
         kModel,
         {"chat_template.jinja:1", "Try: "},
         mended},
        {"ATagOfNobody",
         shown(kTriedRow, {}, broken("{% import 'x' as y %}")),
         kModel,
         {"chat_template.jinja:1"},
         mended},
        {"AFilterOfNobody",
         shown(kTriedRow, {}, broken("{{ messages|shuffle }}")),
         kModel,
         {"chat_template.jinja:1", "shuffle"},
         mended},
        {"AnExpressionCutOff",
         shown(kTriedRow, {}, broken("\n{{ messages[ }}")),
         kModel,
         {"chat_template.jinja:2"},
         mended},
        {"ALoopWithoutEnd",
         shown(kTriedRow, {},
               broken("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}")),
         kModel,
         {"chat_template.jinja: the template breaks its bounds with a chat of few words", "cannot write this chat"},
         mended},
        {"ATemplateThatRefuses",
         shown(kTriedRow, {}, broken("{{ raise_exception('system first') }}")),
         kData,
         {"rows.jsonl:1", "refuses this chat: system first", "Try: messages in the order that it expects"},
         mended},
        {"AMemberOfNothing",
         shown(kTriedRow, {}, broken("{{ messages[0].tool.name }}")),
         kData,
         {"cannot write this chat", "Try: another template"},
         mended},
        {"NoEndOfTurn",
         shown(messages("[" + kAnswer + R"(, {"role": "user", "content": "a"}, )" + kAnswer + "]"), {},
               "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }} {% endfor %}"),
         kData,
         {"ends this answer by no token that ends a text", "Try: a template that writes eos_token"},
         mended},
    };
}

std::vector<Tried> chat_words() {
    return {
        {"ADateOfNobody",
         shown(kTriedRow, {"--template-date", "2026-02-31"}),
         kUsage,
         {"template_date: \"2026-02-31\" is no date", "Try: "},
         then_shown(kTriedRow, {"--template-date", "2026-02-28"})},
        {"TurnsOfNobody",
         shown(kTriedRow, {"--train-turns", "frist"}),
         kUsage,
         {"train_turns", "last"},
         then_shown(kTriedRow, {"--train-turns", "last"})},
        {"TalkWithoutATemplate",
         words({"chat", "MODEL"}),
         kModel,
         {"has no chat template", "Try: --chat-template FILE.jinja, or windlass generate"},
         then({"generate", "MODEL", "--prompt", "a", "--max-new-tokens", "2"})},
    };
}
INSTANTIATE_TEST_SUITE_P(Words, FirstHourChats, testing::ValuesIn(chat_words()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Templates, FirstHourChats, testing::ValuesIn(chat_templates()), name_of_tried);

const Settings kComparing = {{"objective", "dpo"}, {"train_data", "@pairs.jsonl"}};
constexpr const char* kComparedPair = R"({"prompt": "a ", "chosen": "b", "rejected": "c"})";

std::function<Command(Sandbox&)> compared(const std::string& row, const Settings& changes = {}) {
    return [=](Sandbox& sandbox) {
        sandbox.rows("pairs.jsonl", {row, kComparedPair});
        Settings settings = kComparing;
        for (const auto& [key, value] : changes) settings[key] = value;
        return training(settings)(sandbox);
    };
}
std::function<Command(Sandbox&, const Finished&)> then_compared(const std::string& row, const Settings& changes = {}) {
    const auto attempt = compared(row, changes);
    return [=](Sandbox& sandbox, const Finished&) { return attempt(sandbox); };
}

std::vector<Tried> pairs_of_answers() {
    return {
        {"PairsThatAreTexts",
         compared(R"({"text": "a"})"),
         kUsage,
         {"pairs.jsonl:1", "compares pairs of answers", "Try: rows with \"chosen\""},
         then_compared(kComparedPair)},
        {"PairsWithoutAnObjective",
         compared(kComparedPair, {{"objective", "loss"}}),
         kUsage,
         {"pairs.jsonl:1", "Try: objective: dpo"},
         then_compared(kComparedPair)},
        {"PairsWithoutAPrompt",
         compared(R"({"chosen": "b", "rejected": "c"})"),
         kData,
         {"pairs.jsonl:1", "\"prompt\" is missing"},
         then_compared(R"({"chosen": "b", "rejected": "c"})", {{"skip_malformed", "true"}})},
        {"PairsOfNothing",
         compared(R"({"prompt": "a", "chosen": "", "rejected": "c"})", {{"add_eos", "false"}}),
         kData,
         {"pairs.jsonl:1", "an answer of the pair has no token"},
         then_compared(R"({"prompt": "a", "chosen": "", "rejected": "c"})",
                       {{"add_eos", "false"}, {"skip_malformed", "true"}})},
        {"PackedPairs",
         compared(kComparedPair, {{"packing", "true"}}),
         kUsage,
         {"objective dpo compares rows; packing mixes them", "Try: "},
         then_compared(kComparedPair, {{"packing", "false"}})},
        {"SplitPairs",
         compared(kComparedPair, {{"truncation", "split"}}),
         kUsage,
         {"truncation: pairs of answers are not cut at their ends", "Try: drop"},
         then_compared(kComparedPair, {{"truncation", "drop"}})},
        {"PairsForATask",
         compared(kComparedPair, {{"task", "sst2"}}),
         kUsage,
         {"objective dpo compares answers, and a task has its own", "Try: task: null"},
         then_compared(kComparedPair, {{"task", "null"}})},
        {"AnAnswerThatIsANumber",
         compared(R"({"prompt": "a", "chosen": 3, "rejected": "c"})"),
         kData,
         {"pairs.jsonl:1", "\"chosen\" is number and not a string"},
         then_compared(kComparedPair)},
        {"AnObjectiveMisspelt",
         compared(kComparedPair, {{"objective", "dop"}}),
         kUsage,
         {"objective", "dpo"},
         then_compared(kComparedPair)},
        {"ABetaOfNothing",
         compared(kComparedPair, {{"preference_beta", "0"}}),
         kUsage,
         {"preference_beta"},
         then_compared(kComparedPair, {{"preference_beta", "0.1"}})},
        {"PairsWithoutAnAnswerOfTheAssistant",
         compared(R"({"chosen": [{"role": "user", "content": "a"}], "rejected": [{"role": "user", "content": "a"}]})"),
         kUsage,
         {"pairs.jsonl:1"},
         then_compared(kComparedPair)},
    };
}
INSTANTIATE_TEST_SUITE_P(Pairs, FirstHourChats, testing::ValuesIn(pairs_of_answers()), name_of_tried);

void edit_config(const std::string& folder, const std::function<void(Json&)>& edit) {
    edit_json(folder + "/config.json", edit);
}

std::vector<Tried> new_families() {
    return {
        {"AFamilyOfTomorrow",
         training_after(
             [](const std::string& folder) { edit_config(folder, [](Json& json) { json["model_type"] = "llama9"; }); }),
         kModel,
         {"llama9", "Try: "},
         {}},
        {"ARopeOfNobody",
         training_after([](const std::string& folder) {
             edit_config(folder, [](Json& json) { json["rope_scaling"] = {{"rope_type", "spiral"}, {"factor", 2.0}}; });
         }),
         kModel,
         {"spiral"},
         {}},
    };
}
INSTANTIATE_TEST_SUITE_P(Families, FirstHourChats, testing::ValuesIn(new_families()), name_of_tried);

}  // namespace
}  // namespace windlass::cli
