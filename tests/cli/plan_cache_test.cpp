// Plans that are kept, as users of one machine share them: several programs at once.
#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <regex>

#include "format/checksum.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

// What a process itself takes differs a little each time.
std::string without_sizes(const std::string& text) {
    return std::regex_replace(text, std::regex("[0-9.]+ [KMG]iB"), "...");
}

bool is_whole(const std::string& entry) {
    const size_t end = entry.find('\n');
    if (end == entry.npos) return false;
    const std::string body = entry.substr(end + 1);
    return entry.substr(0, end) == fmt::format("windlass plan 1 {:016x}", xxh3_64(bytes_of(body)));
}

TEST(PlanCache, IsWrittenByManyProcessesAtOnce) {
    Sandbox sandbox;
    const std::string model = sandbox.model();
    must_succeed(sandbox.windlass({"plan", "--model", model, "--alone", "--no-plan-cache"}));  // measures the machine
    const Command command =
        sandbox.windlass({"plan", "--model", model, "--max-length", "48", "--machine", "rtx4090-desktop", "--alone"});
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < 6; ++i) processes.push_back(std::make_unique<Process>(command));
    std::string first;
    for (const auto& process : processes) {
        const Finished finished = process->wait();
        EXPECT_EQ(finished.code, 0) << describe(finished);
        if (first.empty()) first = without_sizes(finished.out);
        EXPECT_EQ(without_sizes(finished.out), first);
    }
    int entries = 0;
    for (const auto& entry : fs::directory_iterator(sandbox.cache() + "/windlass/plans")) {
        EXPECT_EQ(entry.path().extension(), ".plan") << "is left over";
        EXPECT_TRUE(is_whole(read_bytes(entry.path()))) << entry.path();
        ++entries;
    }
    EXPECT_GE(entries, 1);
    EXPECT_EQ(without_sizes(must_succeed(command).out), first);
}

// Nothing is said of it, and nothing fails.
TEST(PlanCache, ThatCannotBeWrittenIsNoError) {
    Sandbox sandbox;
    Command command = sandbox.windlass({"plan", "--model", sandbox.model(), "--max-length", "48", "--alone"});
    must_succeed(command);
    fs::remove_all(sandbox.cache() + "/windlass/plans");
    write_bytes(sandbox.cache() + "/windlass/plans", "a file where the folder should be");
    const Finished finished = must_succeed(command);
    EXPECT_THAT(finished.err, testing::Not(testing::HasSubstr("plans")));
    EXPECT_EQ(read_bytes(sandbox.cache() + "/windlass/plans"), "a file where the folder should be");
}

}  // namespace
}  // namespace windlass::cli
