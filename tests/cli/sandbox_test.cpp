// Sandboxes share what a machine can do, which takes seconds to measure, and no answer.
#include "tests/cli/sandbox.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    return names;
}

TEST(Sandbox, SharesRatesAndNoPlans) {
    {
        Sandbox first;
        must_succeed(first.windlass({"plan", "--model", first.model(), "--max-length", "32", "--alone"}));
        EXPECT_THAT(names_in(first.cache() + "/windlass"), testing::Contains("plans"));
    }
    const Sandbox second;
    EXPECT_THAT(names_in(second.cache() + "/windlass"),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(testing::StartsWith("machine-"))));
}

// So every other test of this program shows that what it runs opens no socket.
TEST(Process, IsEndedBySocketsOfANetwork) {
    const Finished finished = run({.words = {"/bin/bash", "-c", "exec 3<>/dev/udp/127.0.0.1/9; echo opened"}});
    if (finished.code == 0) GTEST_SKIP() << "filters of system calls are not allowed here";
    EXPECT_EQ(finished.signal, SIGSYS);
    EXPECT_EQ(finished.out, "");
}

}  // namespace
}  // namespace windlass::cli
