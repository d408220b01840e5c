#include "tests/cli/provoked.h"

#include <gmock/gmock.h>

#include <filesystem>

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
