// Names of files in requests lead nowhere but into the root.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/json.h"
#include "tests/page/ui.h"

namespace windlass::page {
namespace {

namespace fs = std::filesystem;

class ServerPaths : public testing::Test {
  protected:
    ServerPaths() : ui_(sandbox_) {
        sandbox_.model();
        sandbox_.token_rows();
        fs::copy(sandbox_ / "llama_tiny", outside_ / "model", fs::copy_options::recursive);
        cli::write_bytes(outside_ / "rows.jsonl", cli::read_bytes(sandbox_ / "rows.jsonl"));
        fs::create_directory_symlink(outside_.path(), sandbox_ / "link");
        fs::create_directory_symlink("..", sandbox_ / "up");
        fs::create_directories(sandbox_ / "inside");
    }

    static Json settings() {
        return {{"model", "llama_tiny"}, {"train_data", Json::array({"rows.jsonl"})},
                {"output_dir", "out"},   {"max_steps", 1},
                {"max_length", 32},      {"threads", 1}};
    }

    // Names that lead out of the root.
    std::vector<std::string> names_outside() const {
        const std::string up = "../" + fs::path(outside_.path()).filename().string();
        return {up,
                outside_.path(),
                "/etc",
                "..",
                "link",
                "link/new",
                "inside/../" + up,
                "up/" + fs::path(outside_.path()).filename().string(),
                "llama_tiny/../../x",
                std::string("a\0b", 3),
                "/proc/self/cwd/x"};
    }

    void expect_refused(const std::string& path, const Json& body) {
        SCOPED_TRACE(path + " " + body.dump());
        const Answer answer = ui_.post(path, body);
        EXPECT_EQ(answer.status, 400) << answer.body;
    }

    cli::Sandbox sandbox_;
    const TempFolder outside_;
    Ui ui_;
};

// Keys that name files, and names that are read as one of them.
constexpr const char* kKeysOfFiles[] = {"model",           "base_model", "output_dir",    "train_data",  "eval_data",
                                        "validation_file", "task",       "chat_template", "cache_dir",   "preset",
                                        "adapter",         "ssd_dir",    "nvme_path",     "branch_from", "machine"};

TEST_F(ServerPaths, OfSettingsStayInTheRoot) {
    const std::string before = cli::read_bytes(outside_ / "model/config.json");
    const auto files = [&] {
        return std::distance(fs::recursive_directory_iterator(outside_.path()), fs::recursive_directory_iterator());
    };
    const auto count = files();
    for (const std::string& name : names_outside())
        for (const std::string_view key : kKeysOfFiles) {
            Json settings = this->settings();
            const bool is_list = key.ends_with("_data");
            settings[std::string(key)] = is_list ? Json::array({"rows.jsonl", name}) : Json(name);
            for (const char* path : {"/api/runs", "/api/plan"}) expect_refused(path, {{"settings", settings}});
        }
    EXPECT_EQ(files(), count);
    EXPECT_EQ(cli::read_bytes(outside_ / "model/config.json"), before);
    EXPECT_TRUE(processes_in(sandbox_.path()).empty());
}

TEST_F(ServerPaths, OfEveryOtherRouteDoToo) {
    cli::must_succeed(sandbox_.train(sandbox_.training()));
    const std::string id = ui_.get_json("/api/runs").at("runs")[0].at("run_id");
    std::vector<std::string> names = names_outside();
    names.emplace_back("");
    for (const std::string& name : names) {
        expect_refused("/api/inspect", {{"model", name}});
        expect_refused("/api/chats", {{"model", name}});
        expect_refused(fmt::format("/api/runs/{}/export", id), {{"to", name}, {"overwrite", true}});
        if (name.empty()) continue;
        Json settings = this->settings();
        settings["train_data"] = Json::array({name});
        expect_refused("/api/data", {{"what", "show"}, {"settings", settings}});
    }
}

TEST_F(ServerPaths, InsideAreTaken) {
    EXPECT_EQ(ui_.post("/api/inspect", {{"model", "llama_tiny"}}).status, 200);
    EXPECT_EQ(ui_.post("/api/inspect", {{"model", sandbox_ / "llama_tiny"}}).status, 200);
    EXPECT_EQ(ui_.post("/api/inspect", {{"model", "inside/../llama_tiny"}}).status, 200);
}

// Nothing of a request is a flag of the verb that it starts.
TEST_F(ServerPaths, AreNoFlags) {
    for (const char* name : {"--help", "-q", "--download", "a b", "$(touch made)", "; touch made", "`touch made`"}) {
        const Answer answer = ui_.post("/api/inspect", {{"model", name}});
        EXPECT_NE(answer.status, 200) << name << ": " << answer.body;
        Json settings = this->settings();
        settings[name] = "x";
        EXPECT_NE(ui_.post("/api/plan", {{"settings", settings}}).body.find("error"), std::string::npos) << name;
    }
    EXPECT_FALSE(fs::exists(sandbox_ / "made"));
}

}  // namespace
}  // namespace windlass::page
