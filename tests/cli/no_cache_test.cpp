// Where nothing can be kept, every verb works without its cache, and says so once.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct NoCache {
    const char* name;
    std::map<std::string, std::string> environment;
    std::vector<std::string> words;
    const char* setting;
};

void PrintTo(const NoCache& place, std::ostream* out) {
    *out << place.name;
}

class WithoutACache : public testing::TestWithParam<NoCache> {
  protected:
    std::string succeed(std::vector<std::string> words) {
        words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
        Command command = sandbox_.windlass(words);
        if (GetParam().words.empty()) command.environment = GetParam().environment;
        const std::string said = must_succeed(command).err;
        const std::string advice = fmt::format("Try: {}", GetParam().setting);
        const size_t at = said.find(advice);
        EXPECT_NE(at, std::string::npos) << words[0] << ": " << said;
        EXPECT_EQ(said.find(advice, at + 1), std::string::npos) << words[0] << ": " << said;
        return said;
    }
    Sandbox sandbox_;
};

TEST_P(WithoutACache, VerbsOfRowsWork) {
    std::vector<std::string> words = words_of(sandbox_.training());
    words.insert(words.begin(), "train");
    succeed(words);
    EXPECT_TRUE(fs::exists(sandbox_.out() + "/final/config.json"));
    succeed({"eval", sandbox_.model(), "--data", sandbox_.token_rows(), "--max-length", "32", "--threads", "1"});
    for (const auto& entry : fs::directory_iterator("/tmp"))
        EXPECT_FALSE(entry.path().filename().string().starts_with("windlass-tokens-")) << entry.path();
}

TEST_P(WithoutACache, AVerbThatMeasuresWorks) {
    if (!GetParam().words.empty()) GTEST_SKIP() << "cache_dir is where rows are kept";
    EXPECT_THAT(succeed({"plan", "--model", sandbox_.model(), "--threads", "1", "--alone"}),
                HasSubstr("measuring this machine\n"));
}

INSTANTIATE_TEST_SUITE_P(Places, WithoutACache,
                         testing::Values(NoCache{"Proc", {{"HOME", "/proc"}}, {}, "XDG_CACHE_HOME=DIR"},
                                         NoCache{"CacheDir", {}, {"--cache-dir", "/proc/tokens"}, "--cache-dir DIR"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace windlass::cli
