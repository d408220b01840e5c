#include "ui/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

namespace windlass {
namespace {

using testing::HasSubstr;

// The child is this program of tests, as the program itself is for the page.
std::vector<std::string> list_of_tests() {
    return {"--gtest_list_tests", "--gtest_filter=ChildProcess.*"};
}

template <typename Run>
void run_task(Run run) {
    asio::io_context context(1);
    bool is_done = false;
    const auto task = [&]() -> Task<> {
        co_await run(context);
        is_done = true;
    };
    asio::co_spawn(context, task, asio::detached);
    context.run_for(std::chrono::seconds(60));
    EXPECT_TRUE(is_done);
}

TEST(ChildProcess, GivesItsLines) {
    run_task([](asio::io_context& context) -> Task<> {
        ChildProcess child(context, list_of_tests(), "/");
        std::string all;
        for (;;) {
            const std::optional<std::string> line = co_await child.read_line();
            if (!line) break;
            all += *line + "|";
        }
        EXPECT_THAT(all, HasSubstr("ChildProcess.|  GivesItsLines|"));
        while (child.is_running()) co_await pause(std::chrono::milliseconds(1));
    });
}

TEST(ChildProcess, GivesAllItSaysIfThatIsNotTooMuch) {
    run_task([](asio::io_context& context) -> Task<> {
        ChildProcess whole(context, list_of_tests(), "/"), cut(context, list_of_tests(), "/");
        const std::optional<std::string> text = co_await whole.read_all(1 << 20);
        EXPECT_THAT(text.value_or(""), HasSubstr("GivesItsLines"));
        const std::optional<std::string> start = co_await cut.read_all(8);
        EXPECT_FALSE(start.has_value());
    });
}

TEST(ChildProcess, WaitTakesInputUntilItIsEnded) {
    if (std::getenv("WINDLASS_TEST_IS_CHILD") == nullptr) GTEST_SKIP() << "run by the next test";
    for (std::string line; std::getline(std::cin, line);) std::cout << "took " << line << std::endl;
}

TEST(ChildProcess, TakesInputAndIsEnded) {
    ASSERT_EQ(setenv("WINDLASS_TEST_IS_CHILD", "1", 1), 0);
    run_task([](asio::io_context& context) -> Task<> {
        std::vector<std::string> words;
        words.emplace_back("--gtest_filter=ChildProcess.WaitTakesInputUntilItIsEnded");
        ChildProcess child(context, words, "/", true);
        const bool taken = co_await child.write_line("this");
        EXPECT_TRUE(taken);
        for (std::optional<std::string> line = ""; line && *line != "took this";) line = co_await child.read_line();
        EXPECT_TRUE(child.is_running());
        child.end();
        while (child.is_running()) co_await pause(std::chrono::milliseconds(1));
        const std::optional<std::string> after = co_await child.read_line();
        EXPECT_FALSE(after.has_value());
    });
    unsetenv("WINDLASS_TEST_IS_CHILD");
}

}  // namespace
}  // namespace windlass
