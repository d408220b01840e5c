// Conversations through the real program: what is learned of them, shown, and said again.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTemplate =
    "{% for m in messages %}{% if m['role'] == 'assistant' %}A:{{ m['content'] }}{{ eos_token }}"
    "{% elif m['role'] == 'system' %}S:{{ m['content'] }}\n{% else %}U:{{ m['content'] }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A:{% endif %}";

class Chats : public testing::Test {
  protected:
    void SetUp() override {
        model_ = sandbox_.model();
        write_bytes(model_ + "/chat_template.jinja", kTemplate);
    }

    std::string chats() {
        return sandbox_.rows(
            "chats.jsonl",
            {R"({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "I am Ada."}]})",
             R"({"messages": [{"role": "user", "content": "bye"}, {"role": "assistant", "content": "See you"}]})",
             R"({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "I am Ada."}, )"
             R"({"role": "user", "content": "bye"}, {"role": "assistant", "content": "See you"}]})"});
    }

    // Long enough that the tiny model knows them by heart.
    std::string learn(const std::string& rows, const Settings& more = {}) {
        Settings settings = sandbox_.training();
        settings["train_data"] = rows;
        settings["max_steps"] = "150";
        settings["learning_rate"] = "5e-3";
        settings["per_device_train_batch_size"] = "3";
        settings["max_length"] = "64";
        for (const auto& [key, value] : more) settings[key] = value;
        const Finished finished = must_succeed(sandbox_.train(settings));
        said_ = finished.err;
        return sandbox_.out() + "/final";
    }

    Finished chat(const std::string& model, const std::string& lines, const std::vector<std::string>& more = {}) {
        std::vector<std::string> words = {"chat", model, "--max-new-tokens", "40"};
        words.insert(words.end(), more.begin(), more.end());
        Command command = sandbox_.windlass(words);
        command.input = lines;
        return must_succeed(command);
    }

    Sandbox sandbox_;
    std::string model_, said_;
};

TEST_F(Chats, AreLearnedAndAnsweredAndAnswersEnd) {
    const std::string final = learn(chats());
    EXPECT_THAT(said_, HasSubstr("chat template: chat_template.jinja; a turn ends with </s>"));
    const Finished said = chat(final, "who?\nbye\n/undo\nbye\n/save " + (sandbox_ / "said.jsonl") + "\n/quit\nwho?\n");
    EXPECT_EQ(said.out, "I am Ada.\nSee you\nSee you\n");
    EXPECT_THAT(said.err, Not(HasSubstr("was cut")));
    EXPECT_EQ(read_bytes(sandbox_ / "said.jsonl"),
              R"({"messages":[{"role":"user","content":"who?"},{"role":"assistant","content":"I am Ada."},)"
              R"({"role":"user","content":"bye"},{"role":"assistant","content":"See you"}]})"
              "\n");
    // What was saved trains.
    must_succeed(sandbox_.windlass({"data", "check", "--model", model_, "--train-data", sandbox_ / "said.jsonl"}));
    const Json one = json_of(sandbox_.windlass({"generate", final, "--chat", "--prompt", "bye", "--json"}));
    EXPECT_EQ(one.at("text"), "See you");
    EXPECT_EQ(one.at("stopped"), true);
    const Json stopped =
        json_of(sandbox_.windlass({"generate", final, "--chat", "--prompt", "who?", "--stop", " Ada", "--json"}));
    EXPECT_EQ(stopped.at("text"), "I am");
    EXPECT_EQ(stopped.at("stopped"), true);
}

TEST_F(Chats, AnswersAreTheSameHoweverMuchIsKept) {
    const std::string final = learn(chats());
    // The second time everything before the last question is computed anew.
    const std::string kept = chat(final, "who?\nbye\n").out;
    const std::string anew = chat(final, "/system x\nwho?\n/system\n/undo\nwho?\nbye\n").out;
    EXPECT_EQ(kept, anew.substr(anew.find('\n') + 1));
}

TEST_F(Chats, ShowWhatIsLearned) {
    const std::string rows = chats();
    const auto data = [&](const char* what, const std::vector<std::string>& more = {}) {
        std::vector<std::string> words = {"data", what, "--model", model_, "--train-data", rows};
        words.insert(words.end(), more.begin(), more.end());
        return sandbox_.windlass(words);
    };
    EXPECT_THAT(must_succeed(data("show", {"--samples", "1"})).out,
                AllOf(HasSubstr("--- sample 1: "), HasSubstr("U:who?\nA:⟦I am Ada.</s>⟧"), Not(HasSubstr("sample 2"))));
    EXPECT_THAT(must_succeed(data("show", {"--train-turns", "last"})).out,
                HasSubstr("U:who?\nA:I am Ada.</s>U:bye\nA:⟦See you</s>⟧"));
    const Json shown = json_of(data("show", {"--json"}));
    EXPECT_EQ(shown.at("samples").size(), 3u);
    EXPECT_EQ(shown.at("samples")[0].at("pieces")[1].at("text"), "I am Ada.</s>");
    const Json stats = json_of(data("stats", {"--json"}));
    EXPECT_EQ(stats.at("samples"), 3);
    EXPECT_EQ(stats.at("learned_tokens"), 2 * 10 + 2 * 8);
    EXPECT_THAT(must_succeed(data("stats")).out,
                AllOf(HasSubstr("3 rows: 3 samples"), HasSubstr("median"), HasSubstr("#")));
}

TEST_F(Chats, CheckNamesEveryBadRow) {
    const std::string rows = sandbox_.rows(
        "bad.jsonl", {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})",
                      R"({"messages": [{"role": "user", "content": "a"}]})", "{",
                      R"({"messages": [{"role": "x", "content": "a"}]})"});
    const Finished checked = run(sandbox_.windlass({"data", "check", "--model", model_, "--train-data", rows}));
    EXPECT_EQ(checked.code, kData);
    EXPECT_THAT(checked.out,
                AllOf(HasSubstr("bad.jsonl:2: no message is an assistant's"), HasSubstr("bad.jsonl:3: "),
                      HasSubstr("bad.jsonl:4: message 1: there is no role \"x\""), HasSubstr("3 malformed")));
}

// The rows that a run was made of are those of its day, whenever it goes on.
TEST_F(Chats, TheDateStaysThatOfTheRun) {
    write_bytes(model_ + "/chat_template.jinja", "{{ strftime_now('%d %b %Y') }}" + std::string(kTemplate));
    Settings settings = sandbox_.training();
    settings["train_data"] = chats();
    must_succeed(sandbox_.train(settings));
    const std::string kept = read_bytes(sandbox_.out() + "/run.yaml");
    EXPECT_THAT(kept, testing::ContainsRegex("template_date: \"?20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]"));
    EXPECT_THAT(must_succeed(sandbox_.windlass({"data", "show", "--model", model_, "--train-data", chats(),
                                                "--template-date", "2026-01-31"}))
                    .out,
                HasSubstr("31 Jan 2026U:who?"));
    const Finished refused = run(sandbox_.windlass(
        {"data", "show", "--model", model_, "--train-data", chats(), "--template-date", "2026-02-31"}));
    EXPECT_EQ(refused.code, kUsage);
    EXPECT_THAT(refused.err, HasSubstr("template_date: \"2026-02-31\" is no date"));
}

TEST_F(Chats, TheDateStaysWhateverFileTheRunGoesOnBy) {
    write_bytes(model_ + "/chat_template.jinja", "{{ strftime_now('%d %b %Y') }}" + std::string(kTemplate));
    Settings settings = sandbox_.training();
    settings["train_data"] = chats();
    settings["save_steps"] = "1";
    settings["template_date"] = "2020-02-20";
    must_succeed(sandbox_.train(settings));
    settings.erase("template_date");
    settings["max_steps"] = "3";
    settings["resume"] = "auto";
    must_succeed(sandbox_.train(settings));
    EXPECT_THAT(read_bytes(sandbox_.out() + "/run.yaml"), HasSubstr("2020-02-20"));
}

// What was trained can be talked to as it stands.
TEST_F(Chats, ATemplateFromAFileGoesAlong) {
    write_bytes(model_ + "/chat_template.jinja", "{{ raise_exception('the other one') }}");
    write_bytes(sandbox_ / "mine.jinja", kTemplate);
    const std::string final =
        learn(chats(), {{"chat_template", sandbox_ / "mine.jinja"}, {"max_steps", "2"}, {"save_steps", "2"}});
    EXPECT_EQ(read_bytes(final + "/chat_template.jinja"), kTemplate);
    EXPECT_EQ(read_bytes(sandbox_.out() + "/checkpoint-2/model/chat_template.jinja"), kTemplate);
    const Finished gguf = must_succeed(sandbox_.windlass({"export", final, "--to", sandbox_ / "x.gguf"}));
    EXPECT_THAT(gguf.out, HasSubstr("x.gguf: step 2 of " + final));
    EXPECT_THAT(read_bytes(sandbox_ / "x.gguf"), HasSubstr(kTemplate));
}

// Killed behind some steps, a run has its working store and nothing else.
TEST_F(Chats, ATemplateFromAFileIsInTheExportOfAStoppedRun) {
    write_bytes(model_ + "/chat_template.jinja", "{{ raise_exception('the other one') }}");
    write_bytes(sandbox_ / "mine.jinja", kTemplate);
    Settings settings = sandbox_.training_on_disk();
    settings["train_data"] = chats();
    settings["chat_template"] = sandbox_ / "mine.jinja";
    settings["max_steps"] = "100000";
    Process training(sandbox_.train(settings));
    const std::string log = sandbox_.out() + "/metrics.jsonl";
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(log) && std::filesystem::file_size(log) > 0; }, 60));
    training.send(SIGKILL);
    training.wait();
    const Finished exported = must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "folder"}));
    EXPECT_THAT(exported.out, HasSubstr(".wls"));
    EXPECT_EQ(read_bytes(sandbox_ / "folder/chat_template.jinja"), kTemplate);
}

TEST_F(Chats, ATemplateFromAFileIsInEveryExport) {
    write_bytes(model_ + "/chat_template.jinja", "{{ raise_exception('the other one') }}");
    write_bytes(sandbox_ / "mine.jinja", kTemplate);
    for (const bool is_adapter : {false, true}) {
        SCOPED_TRACE(is_adapter);
        Settings settings = sandbox_.training_on_disk();
        settings["train_data"] = chats();
        settings["chat_template"] = sandbox_ / "mine.jinja";
        settings["overwrite"] = "true";
        settings["export_steps"] = "1";
        if (is_adapter) settings["adapter"] = "lora";
        must_succeed(sandbox_.train(settings));
        std::filesystem::remove(sandbox_ / "mine.jinja");  // the run has its own
        for (const char* name : {"folder", "x.gguf"}) {
            std::vector<std::string> words = {"export", sandbox_.out(), "--overwrite", "--to", sandbox_ / name};
            if (is_adapter) words.emplace_back("--merged");
            must_succeed(sandbox_.windlass(words));
        }
        EXPECT_EQ(read_bytes(sandbox_ / "folder/chat_template.jinja"), kTemplate);
        EXPECT_THAT(read_bytes(sandbox_ / "x.gguf"), HasSubstr(kTemplate));
        EXPECT_EQ(read_bytes(sandbox_.out() + "/export-1/chat_template.jinja"), kTemplate);
        EXPECT_EQ(read_bytes(sandbox_.out() + "/final/chat_template.jinja"), kTemplate);
        chat(sandbox_.out() + "/final", "who?\n");
        write_bytes(sandbox_ / "mine.jinja", kTemplate);
    }
}

// A run on chats is asked: what it is sampled by are questions.
TEST_F(Chats, SamplesAreAnswers) {
    const std::string final = learn(
        chats(), {{"sample_prompts", "[\"who?\", bye]"}, {"sample_steps", "150"}, {"sample_max_new_tokens", "30"}});
    const std::string samples = read_bytes(sandbox_.out() + "/samples.jsonl");
    EXPECT_THAT(samples, AllOf(HasSubstr(R"("prompt":"who?","text":"I am Ada.")"), HasSubstr(R"("text":"See you")")));
}

TEST_F(Chats, InspectNamesTheTemplate) {
    EXPECT_THAT(must_succeed(sandbox_.windlass({"inspect", model_})).out,
                HasSubstr("chat_template.jinja; a turn ends with </s>"));
    EXPECT_EQ(json_of(sandbox_.windlass({"inspect", model_, "--json"})).at("chat_template"), true);
    write_bytes(model_ + "/chat_template.jinja", "{% import 'x' as y %}");
    EXPECT_THAT(must_succeed(sandbox_.windlass({"inspect", model_})).out, HasSubstr("template    not usable: "));
}

TEST_F(Chats, WithoutATemplateInstructionsAreClassicAndThatIsSaid) {
    const std::string rows = sandbox_.rows("alpaca.jsonl", {R"({"instruction": "Say a", "output": "a"})"});
    const auto show = [&](const std::vector<std::string>& more) {
        std::vector<std::string> words = {"data",         "show", "--model",      model_,
                                          "--train-data", rows,   "--truncation", "left"};
        words.insert(words.end(), more.begin(), more.end());
        return must_succeed(sandbox_.windlass(words));
    };
    EXPECT_THAT(show({}).out, HasSubstr("U:Say a\nA:⟦a</s>⟧"));
    const Finished classic = show({"--chat-template", "none"});
    EXPECT_THAT(classic.out, HasSubstr("### Response:\n⟦a</s>⟧"));
    EXPECT_THAT(classic.err, HasSubstr("no chat template: instructions are written with the classic"));
}

// The commands of the README, in a folder of their own, with the programs that are built.
TEST(NewcomersWay, LeadsToAModelThatAnswersAndToAGgufFile) {
    const Sandbox sandbox;
    const std::string source = source_dir() + "/", readme = read_bytes(source + "README.md");
    const auto said = [&](const char* line) { EXPECT_THAT(readme, HasSubstr(line)); };
    said("\n    build/release/windlass train examples/chat/run.yaml\n");
    must_succeed(sandbox.windlass(
        {"train", source + "examples/chat/run.yaml", "model=" + source + "examples/quickstart/model",
         "train_data=" + source + "examples/chat/chats.jsonl",
         "chat_template=" + source + "examples/chat/template.jinja", "output_dir=" + (sandbox / "chat")}));
    said("\n    build/release/windlass chat runs/chat/final ");
    Command talk = sandbox.windlass({"chat", sandbox / "chat/final"});
    talk.input = "Who are you?\nThanks\n";
    EXPECT_EQ(must_succeed(talk).out, "I am Winch, a small assistant that runs on a CPU.\nYou are welcome.\n");
    said("\n    build/release/windlass export runs/chat/final --to runs/winch.gguf --type q8_0\n");
    must_succeed(
        sandbox.windlass({"export", sandbox / "chat/final", "--to", sandbox / "winch.gguf", "--type", "q8_0"}));
    EXPECT_THAT(read_bytes(sandbox / "winch.gguf"), AllOf(testing::StartsWith("GGUF"), HasSubstr("Assistant:")));
}

}  // namespace
}  // namespace windlass::cli
