#include "tests/cli/provoked.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

// Names, sizes and times of what a folder holds.
std::vector<std::string> look_of(const std::string& folder) {
    std::vector<std::string> looks;
    if (!fs::exists(folder)) return looks;
    for (const auto& entry : fs::directory_iterator(folder))
        looks.push_back(fmt::format("{} {} {}", entry.path().string(), entry.is_regular_file() ? entry.file_size() : 0,
                                    entry.last_write_time().time_since_epoch().count()));
    std::ranges::sort(looks);
    return looks;
}

// Puts the advice in the place of what the message is about: a flag of the command, or a line of a file.
void take_out(Command& command, const std::string& message) {
    std::smatch flag;
    if (!std::regex_search(message, flag, std::regex("error: (--[a-z-]+): "))) return;
    const auto word = std::ranges::find(command.words, flag.str(1));
    if (word == command.words.end()) return;
    const auto next = std::next(word);
    command.words.erase(word, next != command.words.end() && !next->starts_with("--") ? std::next(next) : next);
}
bool is_put_into_a_file(const std::string& message, const std::string& line) {
    std::smatch place;
    if (!std::regex_search(message, place, std::regex("([^ ]+\\.yaml):([0-9]+): "))) return false;
    std::istringstream lines(read_bytes(place.str(1)));
    std::string text, each;
    for (int number = 1; std::getline(lines, each); ++number)
        text += (number == std::stoi(place.str(2)) ? line : each) + "\n";
    write_bytes(place.str(1), text);
    return true;
}

// What a user would type who does what the message says: "--flag value", "key: value" and "key=value" at the beginning
// of the advice, a setting at its end, and a command that shows help. Nothing for advice that is prose.
std::optional<Command> followed(const Command& command, const std::string& message, const std::string& advice) {
    static const std::regex kSetting("^([a-z_]+)(: |=)([^ ,;]+)(,|;|$)"), kLast(" ([a-z]+_[a-z_]+=[^ ,;]+)$"),
        kFlag("^(--[a-z-]+)( [A-Za-z0-9_]+)?(,|;|$| or )"), kHelp("^windlass( [a-z]+)? --help$");
    Command next = command;
    std::smatch match;
    if (std::regex_search(advice, match, kSetting)) {
        if (is_put_into_a_file(message, match.str(1) + ": " + match.str(3))) return next;
        next.words.push_back(match.str(1) + "=" + match.str(3));
    } else if (std::regex_search(advice, match, kFlag)) {
        take_out(next, message);
        next.words.push_back(match.str(1));
        if (match.length(2) > 0) next.words.push_back(match.str(2).substr(1));
    } else if (std::regex_search(advice, match, kHelp)) {
        next.words.resize(1);
        if (match.length(1) > 0) next.words.push_back(match.str(1).substr(1));
        next.words.emplace_back("--help");
    } else if (std::regex_search(advice, match, kLast)) {
        next.words.push_back(match.str(1));
    } else {
        return std::nullopt;
    }
    return next;
}

// A user who does what the message says must not get the same message again.
void expect_advice_helps(const Command& command, const std::string& message) {
    const std::string advice = said_after(message, "Try: ");
    const std::optional<Command> next = followed(command, message, advice);
    if (!next) return;
    const Finished finished = run(*next);
    const size_t begin = message.find("error: "), end = message.find(". Try: ");
    EXPECT_THAT(finished.err, testing::Not(testing::HasSubstr(message.substr(begin, end - begin))))
        << "after trying " << advice;
}

}  // namespace

void PrintTo(const Provoked& error, std::ostream* out) {
    *out << error.name;
}

std::string name_of_provoked(const testing::TestParamInfo<Provoked>& info) {
    return info.param.name;
}

void expect_refused(const Provoked& error) {
    Sandbox sandbox;
    const Command command = error.provoke(sandbox);
    const std::vector<std::string> model = look_of(sandbox.model());
    const Finished finished = run(command);
    SCOPED_TRACE(fmt::format("{}\n{}", fmt::join(command.words, " "), describe(finished)));
    EXPECT_EQ(finished.code, error.code);
    EXPECT_EQ(finished.out, "");
    for (const std::string& part : error.says) EXPECT_THAT(finished.err, testing::HasSubstr(part));
    // One error, told once, as the last thing.
    const size_t first = finished.err.find("error: ");
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(first, finished.err.rfind("error: "));
    EXPECT_THAT(unfinished_in(sandbox.path()), testing::IsEmpty());
    EXPECT_FALSE(fs::exists(sandbox.out() + "/final"));
    EXPECT_EQ(look_of(sandbox.model()), model);
    expect_advice_helps(command, finished.err);
}

std::function<Command(Sandbox&)> with_model(std::function<void(const std::string&)> edit) {
    return [edit](Sandbox& sandbox) {
        edit(sandbox.model());
        return sandbox.train(sandbox.training());
    };
}

std::function<Command(Sandbox&)> with_config(std::function<void(Json&)> edit) {
    return with_model([edit](const std::string& folder) { edit_json(folder + "/config.json", edit); });
}

std::function<Command(Sandbox&)> with_tensors(std::function<void(Json&, std::string&)> edit) {
    return with_model([edit](const std::string& folder) { edit_safetensors(folder + "/model.safetensors", edit); });
}

std::function<Command(Sandbox&)> with_settings(std::function<void(Settings&, Sandbox&)> edit) {
    return [edit](Sandbox& sandbox) {
        Settings settings = sandbox.training();
        edit(settings, sandbox);
        return sandbox.train(settings);
    };
}

std::function<Command(Sandbox&)> with_rows(std::string name, std::vector<std::string> lines) {
    return with_settings(
        [name, lines](Settings& settings, Sandbox& sandbox) { settings["train_data"] = sandbox.rows(name, lines); });
}

}  // namespace windlass::cli
