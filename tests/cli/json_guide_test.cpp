// docs/guide/json.md names every event, and every key of each, that the program prints.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

using Keys = std::map<std::string, std::set<std::string>>;  // of each section

// Section -> the keys in the first column of its table.
Keys keys_in_guide() {
    std::ifstream page(source_dir() + "/docs/guide/json.md");
    EXPECT_TRUE(page);
    static const std::regex kKey("`([^`]+)`");
    Keys keys;
    std::string section;
    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("### ")) section = line.substr(4);
        if (!line.starts_with("| `") || section.empty()) continue;
        const std::string column = line.substr(0, line.find(" | ", 1));
        for (std::sregex_iterator found(column.begin(), column.end(), kKey), end; found != end; ++found)
            keys[section].insert((*found)[1]);
    }
    return keys;
}

void add_keys(const std::string& name, const Json& value, std::set<std::string>& keys) {
    const std::string prefix = name.empty() ? "" : name + ".";
    if (value.is_object())
        for (const auto& [key, inner] : value.items()) add_keys(prefix + key, inner, keys);
    else if (value.is_array() && !value.empty() && value[0].is_object())
        for (const Json& inner : value) add_keys(name + "[]", inner, keys);
    else
        keys.insert(name);
}

class JsonGuide : public testing::Test {
  protected:
    // What a command prints joins the keys that were seen.
    void see(std::vector<std::string> words, const std::string& input = "") {
        words.emplace_back("--json=lines");
        const std::string verb = words[0];
        Command command = sandbox_.windlass(words);
        command.input = input;
        std::istringstream lines(run(command).out);
        for (std::string line; std::getline(lines, line);) {
            Json event = parse_json(line, "event", ExitCode::internal);
            const std::string name = event.value("event", "");
            event.erase("event");
            event.erase("time");
            add_keys("", event, seen_[name == "done" ? "done of " + verb : name]);
        }
    }
    void see_run(Settings settings, std::vector<std::string> more = {}) {
        std::vector<std::string> words = words_of(settings);
        words.insert(words.begin(), "train");
        words.insert(words.end(), more.begin(), more.end());
        see(words);
    }

    Sandbox sandbox_;
    Keys seen_;
};

bool is_named(const std::set<std::string>& names, const std::string& key) {
    if (names.contains(key)) return true;
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1))
        if (names.contains(key.substr(0, dot) + ".*")) return true;
    return false;
}

TEST_F(JsonGuide, NamesEveryKeyThatIsPrinted) {
    Settings settings = sandbox_.training();
    const std::string rows = sandbox_.token_rows(), model = sandbox_.model();
    settings["save_steps"] = "1";
    settings["eval_data"] = rows;
    settings["eval_steps"] = "1";
    settings["sample_prompts"] = "a";
    settings["sample_steps"] = "1";
    see_run(settings);
    write_bytes(model + "/chat_template.jinja", "{% for m in messages %}{{ m.content }}\n{% endfor %}");
    see_run(settings, {"--dry-run"});
    see({"train", "--model", "absent"});
    const std::string final = sandbox_.out() + "/final";
    see({"plan", "--model", model, "--train-data", rows, "--max-length", "64", "--lanes"});
    see({"eval", final, "--data", rows});
    see({"data", "show", "--model", model, "--train-data", rows});
    see({"data", "stats", "--model", model, "--train-data", rows});
    see({"data", "check", "--model", model, "--train-data", rows});
    see({"data", "keys"});
    see({"generate", final, "--prompt", "a", "--max-new-tokens", "2"});
    see({"chat", model, "--max-new-tokens", "2"}, "{\"content\": \"a\"}\n{\"command\": \"reset\"}\n7\n");
    see({"export", sandbox_.out(), "--to", sandbox_ / "exported"});
    see({"inspect", final, "--tensors"});
    see({"status", sandbox_.out(), "--follow"});
    see({"runs", sandbox_.path()});
    see({"doctor", "--machine", "rtx4090-desktop"});
    see({"version"});
    see({"completion", "bash"});
    see({"config", "schema"});
    see({"help", "topics"});
    const Keys guide = keys_in_guide();
    for (const auto& [section, keys] : seen_) {
        ASSERT_TRUE(guide.contains(section)) << "docs/guide/json.md has no section: " << section;
        for (const std::string& key : keys)
            EXPECT_TRUE(is_named(guide.at(section), key)) << "docs/guide/json.md, " << section << ": " << key;
    }
    for (const char* section : {"step", "evaluation", "sample", "checkpoint", "lanes", "method", "answer", "obeyed",
                                "refused", "row", "text", "status", "error"})
        EXPECT_TRUE(seen_.contains(section)) << "nothing printed " << section;
}

}  // namespace
}  // namespace windlass::cli
