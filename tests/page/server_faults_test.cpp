// What a client, a child or a file in the root may do, and what the server makes of it.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "base/json.h"
#include "tests/page/ui.h"
#include "tests/place.h"

namespace windlass::page {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ServerFaults : public testing::Test {
  protected:
    ServerFaults() : ui_(sandbox_) {
        cli::write_bytes(sandbox_.model() + "/chat_template.jinja",
                         "{% for m in messages %}{{ m.content }}\n{% endfor %}");
        sandbox_.token_rows();
    }

    static Json settings() {
        return {{"model", "llama_tiny"}, {"train_data", Json::array({"rows.jsonl"})},
                {"output_dir", "out"},   {"max_steps", 1},
                {"max_length", 32},      {"chat_template", "none"},
                {"threads", 1}};
    }
    std::string begin_chat(const Json& more = Json::object()) const {
        Json body = {{"model", "llama_tiny"}, {"max_new_tokens", 100000}};
        body.update(more);
        const Answer answer = ui_.post("/api/chats", body);
        EXPECT_EQ(answer.status, 200) << answer.body;
        const std::vector<Json> events = events_of(answer);
        EXPECT_EQ(events.back().at("event"), "ready") << answer.body;
        return events.front().at("id");
    }
    std::string chat_path(const std::string& id) const { return "/api/chats/" + id; }
    std::vector<pid_t> children() const { return processes_in(sandbox_.path()); }
    bool answers() const { return ui_.get("/api/about").status == 200; }
    // The last event of a stream that is refused, or {"status"} of an answer that is none.
    Json refusal_of(const std::string& path, const Json& body) const {
        const Answer answer = ui_.post(path, body);
        return answer.status == 200 ? events_of(answer).back()
                                    : parse_json(answer.body, "answer", ExitCode::usage)["error"];
    }
    void expect_outside_untouched() const {
        EXPECT_EQ(std::distance(fs::directory_iterator(outside_.path()), fs::directory_iterator()), 2);
    }

    cli::Sandbox sandbox_;
    const TempFolder outside_;
    Ui ui_;
};

TEST_F(ServerFaults, AWordThatNoProcessTakesIsRefused) {
    const Answer answer = ui_.post("/api/chats", {{"model", "llama_tiny"}, {"system", std::string(400'000, 'x')}});
    EXPECT_EQ(answer.status, 200) << "it is no word of a command line";
    const std::string value(200'000, 'x');
    Json settings = this->settings();
    settings["sample_prompts"] = value;
    EXPECT_EQ(ui_.post("/api/plan", {{"settings", settings}}).status, 400);
    // A name of 20,000 bytes with 20,000 values would be 400 MB of pairs.
    settings = this->settings();
    settings["rank_pattern"] = {{std::string(20'000, 'x'), std::vector<int>(20'000, 1)}};
    const int64_t before = memory_of(ui_.process().id(), "VmHWM");
    EXPECT_EQ(ui_.post("/api/plan", {{"settings", settings}}).status, 400);
    EXPECT_LT(memory_of(ui_.process().id(), "VmHWM") - before, int64_t{8} << 20);
    EXPECT_TRUE(answers());
}

TEST_F(ServerFaults, AConversationWhoseProcessDiedIsAnError) {
    const std::string id = begin_chat();
    ASSERT_EQ(children().size(), 1u);
    kill(children()[0], SIGKILL);
    ASSERT_TRUE(cli::wait_until([&] { return children().empty(); }, 30));
    const Json error = refusal_of(chat_path(id), {{"content", "a"}});
    EXPECT_THAT(error.at("text").get<std::string>(), HasSubstr("ended without a word"));
    EXPECT_EQ(ui_.post(chat_path(id), {{"content", "a"}}).status, 404);
    EXPECT_TRUE(answers());
}

TEST_F(ServerFaults, AConversationSavesNoFile) {
    const std::string id = begin_chat();
    const Json body = {{"command", "save"}, {"file", outside_ / "saved"}};
    EXPECT_EQ(ui_.post(chat_path(id), body).status, 400);
    EXPECT_EQ(ui_.post(chat_path(id), {{"command", "quit"}}).status, 400);
    EXPECT_FALSE(fs::exists(outside_ / "saved"));
    EXPECT_EQ(events_of(ui_.post(chat_path(id), {{"command", "reset"}})).back().at("event"), "obeyed");
}

TEST_F(ServerFaults, AConversationSurvivesInterruptsAndEndsWhenItIsTold) {
    const std::string id = begin_chat();
    for (int again = 0; again < 5; ++again)
        EXPECT_EQ(ui_.post(chat_path(id) + "/interrupt", Json::object()).status, 202);
    Connection asking(ui_.port());
    asking.send(ui_.request("POST", chat_path(id), R"({"content": "a"})").bytes());
    for (int again = 0; again < 5; ++again)
        EXPECT_EQ(ui_.post(chat_path(id) + "/interrupt", Json::object()).status, 202);
    const std::optional<Answer> answer = asking.read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(events_of(*answer).back().at("event"), "answer") << answer->body;
    asking.send(ui_.request("POST", chat_path(id), R"({"content": "b"})").bytes());
    EXPECT_EQ(ui_.ask(ui_.request("DELETE", chat_path(id))).status, 204);
    EXPECT_TRUE(cli::wait_until([&] { return children().empty(); }, 30)) << "though it was answering";
}

TEST_F(ServerFaults, AModelsNameIsNoSetting) {
    fs::copy(sandbox_ / "llama_tiny", outside_ / "model", fs::copy_options::recursive);
    const Json error = refusal_of("/api/chats", {{"model", "model=" + (outside_ / "model")}});
    EXPECT_EQ(error.at("event"), "error") << error.dump();
}

// Names that are in no request.
TEST_F(ServerFaults, FilesInTheRootLeadNoVerbOutOfIt) {
    fs::copy(sandbox_ / "llama_tiny", outside_ / "model", fs::copy_options::recursive);
    cli::write_bytes(outside_ / "rows.jsonl", cli::read_bytes(sandbox_ / "rows.jsonl"));
    cli::write_bytes(sandbox_ / "preset.json",
                     Json({{"name", "here"}, {"paper", "none"}, {"keys", {{"output_dir", outside_ / "run"}}}}).dump());
    Json settings = this->settings();
    settings.erase("output_dir");
    settings["preset"] = "preset.json";
    const auto expect_kept_inside = [&](const Json& error) {
        EXPECT_EQ(error.at("event"), "error") << error.dump();
        EXPECT_THAT(error.at("text").get<std::string>(), HasSubstr("is not inside")) << error.dump();
    };
    expect_kept_inside(refusal_of("/api/runs", {{"settings", settings}}));
    fs::create_directories(sandbox_ / "rows");
    fs::create_symlink(outside_ / "rows.jsonl", sandbox_ / "rows/linked.jsonl");
    settings = this->settings();
    settings["train_data"] = "rows";
    expect_kept_inside(refusal_of("/api/data", {{"what", "show"}, {"settings", settings}}));
    const Answer begun = ui_.post("/api/runs", {{"settings", this->settings()}});
    ASSERT_EQ(events_of(begun).back().at("event"), "run") << begun.body;
    ASSERT_TRUE(cli::wait_until([&] { return children().empty(); }, 60));
    std::string yaml = cli::read_bytes(sandbox_.out() + "/run.yaml");
    yaml += fmt::format("\nssd_dir: {}\n", outside_ / "store");
    const size_t known = yaml.find("ssd_dir: null\n");
    ASSERT_NE(known, std::string::npos);
    cli::write_bytes(sandbox_.out() + "/run.yaml", yaml.erase(known, std::string("ssd_dir: null\n").size()));
    const std::string id = ui_.get_json("/api/runs").at("runs")[0].at("run_id");
    expect_kept_inside(refusal_of(fmt::format("/api/runs/{}/resume", id), Json::object()));
    expect_outside_untouched();
}

TEST_F(ServerFaults, ARunOfWhichThereIsACopyIsNotChanged) {
    cli::must_succeed(sandbox_.train(sandbox_.training()));
    const std::string id = ui_.get_json("/api/runs").at("runs")[0].at("run_id");
    EXPECT_EQ(ui_.post(fmt::format("/api/runs/{}/save", id), Json::object()).status, 202);
    fs::copy(sandbox_.out(), sandbox_ / "a-copy", fs::copy_options::recursive);
    fs::remove(sandbox_.out() + "/save");
    fs::remove(sandbox_ / "a-copy/save");
    for (const char* what : {"stop", "save", "resume"})
        EXPECT_EQ(ui_.post(fmt::format("/api/runs/{}/{}", id, what), Json::object()).status, 409) << what;
    EXPECT_EQ(ui_.get("/api/runs/" + id).status, 200);
    EXPECT_FALSE(fs::exists(sandbox_ / "a-copy/stop"));
}

TEST_F(ServerFaults, ATargetHasOneExportAtATime) {
    cli::must_succeed(sandbox_.train(sandbox_.training()));
    const std::string id = ui_.get_json("/api/runs").at("runs")[0].at("run_id");
    const auto bytes_to = [&](const std::string& to) {  // the same folder, however it is spelt
        const Json body = {{"to", to}, {"overwrite", true}};
        return ui_.request("POST", fmt::format("/api/runs/{}/export", id), body.dump()).bytes();
    };
    for (const std::string& other :
         {std::string("./exported/"), std::string("out/../exported"), sandbox_ / "exported"}) {
        SCOPED_TRACE(other);
        bool is_refused = false;
        for (int again = 0; again < 5 && !is_refused; ++again) {  // on a busy machine the first may be done before
            Connection first(ui_.port()), second(ui_.port());
            first.send(bytes_to("exported"));
            second.send(bytes_to(other));
            int done = 0;
            for (Connection* each : {&first, &second}) {
                const std::optional<Answer> answer = each->read();
                ASSERT_TRUE(answer);
                if (answer->status == 409)
                    is_refused = true;
                else
                    done += events_of(*answer).back().at("event") == "done";
            }
            EXPECT_EQ(done, is_refused ? 1 : 2);
        }
        EXPECT_TRUE(is_refused);
    }
    EXPECT_TRUE(fs::exists(sandbox_ / "exported/model.safetensors"));
}

// Strangers that take none of what they asked for, and then many more of them.
TEST_F(ServerFaults, StrangersEndNoAnswerOfTheUser) {
    fs::copy(source_dir() + "/examples/plans/Llama-3.2-1B", sandbox_ / "1b", fs::copy_options::recursive);
    const Json settings = {{"model", "1b"}, {"machine", "rtx4090-desktop"}, {"max_length", 256}};
    const Json body = {{"settings", settings}, {"compare_seconds", 3}};  // that it takes
    Connection user(ui_.port());
    user.send(ui_.request("POST", "/api/plan", body.dump()).bytes());
    ASSERT_TRUE(cli::wait_until([&] { return !children().empty(); }, 30));
    std::vector<Connection> strangers;
    std::string requests;
    for (int i = 0; i < 60; ++i)
        requests += fmt::format("GET /chart.js HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", ui_.port());
    for (int i = 0; i < 70; ++i) {
        strangers.emplace_back(ui_.port());
        strangers.back().offer(requests);
    }
    const std::optional<Answer> answer = user.read(60);
    ASSERT_TRUE(answer);
    EXPECT_EQ(events_of(*answer).back().at("event"), "done") << answer->body;
    EXPECT_TRUE(answers());
}

}  // namespace
}  // namespace windlass::page
