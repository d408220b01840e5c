// A model folder from elsewhere may have links to files of the user's: none of their text gets into what is published.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"
#include "tests/unit/format/gguf_bytes.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSecret = "BEGIN-PRIVATE-KEY-b3BlbnNzaC1rZXkt";
constexpr const char* kTemplate =
    "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

class LinkedFiles : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string folder = sandbox_.model();
        write_bytes(folder + "/chat_template.jinja", kTemplate);
        fs::create_directories(sandbox_ / "private");
        const std::string name = GetParam(), own = folder + "/" + name, theirs = sandbox_ / "private/" + name;
        if (name == "chat_template.jinja") {
            write_bytes(own, fmt::format("{{# {} #}}{}", kSecret, kTemplate));
        } else {
            fs::remove(folder + "/chat_template.jinja");
            edit_json(own, [&](Json& json) {
                json["_name_or_path"] = kSecret;
                if (name == "tokenizer_config.json")
                    json["chat_template"] = fmt::format("{{# {} #}}{}", kSecret, kTemplate);
            });
        }
        fs::rename(own, theirs);
        fs::create_symlink("../private/" + name, own);
    }

    Finished train(const std::string& out, Settings more) {
        Settings settings = sandbox_.training();
        settings["train_data"] = sandbox_.rows(
            "chats.jsonl",
            {R"({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "I am Ada."}]})"});
        settings["output_dir"] = sandbox_ / out;
        settings["max_length"] = "64";
        if (GetParam() == std::string("config.json")) settings["train_data"] = sandbox_.token_rows();
        for (const auto& [key, value] : more) settings[key] = value;
        return run(sandbox_.train(settings));
    }
    Finished exported(const std::string& source, const std::string& target) {
        std::vector<std::string> words = {"export", source, "--to", sandbox_ / target};
        if (source != sandbox_.model()) words.emplace_back("--merged");
        return run(sandbox_.windlass(words));
    }
    // What has been written anywhere in the sandbox and has the secret in it.
    std::vector<std::string> with_the_secret() {
        std::vector<std::string> found;
        for (const auto& entry : fs::recursive_directory_iterator(sandbox_.path())) {
            const bool is_own = entry.path().string().find("/private/") != std::string::npos;
            if (entry.is_symlink() || !entry.is_regular_file() || is_own) continue;
            if (read_bytes(entry.path()).find(kSecret) != std::string::npos) found.push_back(entry.path());
        }
        return found;
    }
    Sandbox sandbox_;
};

TEST_P(LinkedFiles, GetIntoNoOutput) {
    const bool is_config = GetParam() == std::string("config.json");
    const auto refused = AllOf(HasSubstr(GetParam()), HasSubstr("is a link out of the model folder"),
                               HasSubstr("Try: cp --remove-destination "));
    const Finished whole = train("whole", {});
    EXPECT_EQ(whole.code, kModel) << whole.err;
    EXPECT_THAT(whole.err, refused);
    const Finished gguf = exported(sandbox_.model(), "of_model.gguf");
    EXPECT_EQ(gguf.code, kModel) << gguf.err;
    EXPECT_THAT(gguf.err, refused);
    // An adapter has none of the base's files; what it is merged into has.
    const Finished adapter = train("adapter", {{"adapter", "lora"}});
    EXPECT_EQ(adapter.code, is_config ? 0 : kModel) << adapter.err;
    if (is_config) {
        EXPECT_THAT(exported(sandbox_ / "adapter", "merged").err, refused);
        EXPECT_THAT(exported(sandbox_ / "adapter", "merged.gguf").err, refused);
    }
    EXPECT_THAT(with_the_secret(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Names, LinkedFiles,
                         testing::Values("chat_template.jinja", "tokenizer_config.json", "config.json"),
                         [](const auto& info) {
                             const std::string name = info.param;
                             return name.substr(0, name.find('.'));
                         });

// Every file of a snapshot is a link into the blobs of the same model, which is as it should be.
TEST(LinkedSnapshot, GivesItsTemplateToAnExport) {
    Sandbox sandbox;
    write_bytes(sandbox.model() + "/chat_template.jinja", kTemplate);
    const std::string repo = sandbox / "hub/models--tiny--llama", snapshot = repo + "/snapshots/1a2b";
    fs::create_directories(snapshot);
    fs::create_directories(repo + "/blobs");
    for (const auto& entry : fs::directory_iterator(sandbox.model())) {
        const std::string name = entry.path().filename();
        fs::copy(entry.path(), repo + "/blobs/" + name);
        fs::create_symlink("../../blobs/" + name, snapshot + "/" + name);
    }
    must_succeed(sandbox.windlass({"export", snapshot, "--to", sandbox / "x.gguf"}));
    const GgufBytes read = GgufBytesReader(read_bytes(sandbox / "x.gguf")).read();
    EXPECT_EQ(read.values.at("tokenizer.chat_template"), kTemplate);
}

}  // namespace
}  // namespace windlass::cli
