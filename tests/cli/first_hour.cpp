#include "tests/cli/first_hour.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Command command_of(Sandbox& sandbox, std::vector<std::string> words) {
    for (std::string& word : words) {
        if (const size_t at = word.find("MODEL"); at != word.npos) word.replace(at, 5, sandbox.model());
        if (const size_t at = word.find('@'); at != word.npos) word.replace(at, 1, sandbox.path() + "/");
    }
    return sandbox.windlass(words);
}

Command training_command(Sandbox& sandbox, const Settings& changes, const std::string& model = "llama_tiny") {
    Settings settings = sandbox.training(model);
    for (auto [key, value] : changes) {
        for (size_t at = 0; (at = value.find('@', at)) != value.npos;) value.replace(at, 1, sandbox.path() + "/");
        settings[key] = value;
    }
    return sandbox.train(settings);
}

size_t count_of(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
    return count;
}

}  // namespace

void PrintTo(const Tried& tried, std::ostream* out) {
    *out << tried.name;
}

std::string name_of_tried(const testing::TestParamInfo<Tried>& info) {
    return info.param.name;
}

void expect_it_helps(const Tried& tried) {
    Sandbox sandbox;
    const Command command = tried.attempt(sandbox);
    const Finished finished = run(command);
    SCOPED_TRACE(fmt::format("{}\n{}", fmt::join(command.words, " "), describe(finished)));
    EXPECT_EQ(finished.code, tried.code);
    for (const std::string& part : tried.says) EXPECT_THAT(finished.out + finished.err, HasSubstr(part));
    if (tried.code == 0) {
        EXPECT_THAT(finished.err, testing::Not(HasSubstr("error: ")));
        return;
    }
    EXPECT_EQ(count_of(finished.err, "error: "), 1u);
    // A way out, the nearest name, or all there are.
    EXPECT_THAT(finished.err,
                testing::AnyOf(HasSubstr("Try: "), HasSubstr("Did you mean \""), HasSubstr("is not one of: ")));
    if (!tried.follow) return;
    const Command next = tried.follow(sandbox, finished);
    const Finished followed = run(next);
    EXPECT_EQ(followed.code, 0) << fmt::format("{}\n", fmt::join(next.words, " ")) << describe(followed);
}

std::function<Command(Sandbox&)> words(std::vector<std::string> words) {
    return [words](Sandbox& sandbox) { return command_of(sandbox, words); };
}

std::function<Command(Sandbox&, const Finished&)> then(std::vector<std::string> words) {
    return [words](Sandbox& sandbox, const Finished&) { return command_of(sandbox, words); };
}

std::function<Command(Sandbox&)> training(const Settings& changes) {
    return [changes](Sandbox& sandbox) { return training_command(sandbox, changes); };
}

std::function<Command(Sandbox&, const Finished&)> then_training(const Settings& changes) {
    return [changes](Sandbox& sandbox, const Finished&) { return training_command(sandbox, changes); };
}

std::function<Command(Sandbox&)> training_after(std::function<void(const std::string&)> edit, const Settings& changes,
                                                const std::string& model) {
    return [edit, changes, model](Sandbox& sandbox) {
        edit(sandbox.model(model));
        return training_command(sandbox, changes, model);
    };
}

std::function<Command(Sandbox&)> after_a_run(std::function<Command(Sandbox&)> attempt) {
    return [attempt](Sandbox& sandbox) {
        must_succeed(training_command(sandbox, {}));
        return attempt(sandbox);
    };
}

}  // namespace windlass::cli
