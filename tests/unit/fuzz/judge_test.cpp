// That a reader's fault is found: readers with one fault each.
#include "tests/fuzz/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.h"
#include "tests/fuzz/samples.h"

namespace windlass {
namespace {

using testing::HasSubstr;

Verdict judged(void (*read)(std::string_view), std::string_view input = "ab") {
    return judge({.name = "planted", .read = read}, input);
}

TEST(FuzzJudge, TakesARefusalByName) {
    const Verdict verdict =
        judged([](std::string_view) { throw UserError(ExitCode::data, "rows.jsonl:3", "is no row"); });
    EXPECT_EQ(verdict.finding, "");
    EXPECT_TRUE(verdict.was_refused);
    EXPECT_EQ(verdict.said, "rows.jsonl:3: is no row");
}

TEST(FuzzJudge, FindsExceptionsThatAreNotOurs) {
    EXPECT_THAT(judged([](std::string_view text) { use(text.at(7)); }).finding, HasSubstr("another exception"));
    EXPECT_THAT(judged([](std::string_view) { throw std::bad_alloc(); }).finding, HasSubstr("bad_alloc"));
}

TEST(FuzzJudge, FindsErrorsWithoutANameOrAPlace) {
    EXPECT_THAT(judged([](std::string_view) { throw Error(ExitCode::internal, "x: y"); }).finding,
                HasSubstr("internal"));
    EXPECT_THAT(judged([](std::string_view) { throw Error(ExitCode::data, "no place"); }).finding, HasSubstr("place"));
    EXPECT_THAT(judged([](std::string_view) {
                    throw UserError(ExitCode::data, "x", "{}", std::string(kMessageMax, 'y'));
                }).finding,
                HasSubstr("a message of 8195 bytes"));
}

TEST(FuzzJudge, FindsMemoryThatIsFreedAgain) {
    const auto read = [](std::string_view) {
        constexpr size_t kBytes = size_t{kHeapMax} + 4096;
        const std::unique_ptr<char[]> room(new char[kBytes]);
        use(room);
    };
    const Verdict verdict = judged(read);
    EXPECT_EQ(verdict.finding, "256 MiB of memory");
    EXPECT_GT(verdict.heap_bytes, kHeapMax);
    EXPECT_EQ(judged([](std::string_view) {}).finding, "");
}

// Libraries of C take memory by malloc, and grow it.
TEST(FuzzJudge, CountsMemoryThatGrows) {
    const auto read = [](std::string_view) {
        constexpr size_t kFirst = 1 << 20, kLast = 16 << 20;
        void* const room = realloc(malloc(kFirst), kLast);
        use(room);
        free(room);
    };
    constexpr int64_t kBytes = 16 << 20;
    const Verdict verdict = judged(read);
    EXPECT_GE(verdict.heap_bytes, kBytes);
    EXPECT_LE(verdict.heap_bytes, kBytes + (2 << 20));
}

}  // namespace
}  // namespace windlass
