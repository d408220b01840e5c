// Rates that were measured while the machine was busy are too low: a step that beats them says so.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

class StaleRates : public testing::Test {
  protected:
    Finished train(const Settings& more = {}) const {
        Settings settings = more;
        settings.merge(sandbox_.training());
        return must_succeed(here(sandbox_.train(settings, {"--overwrite"})));
    }
    // Measures the machine by `plan`, unless an earlier sandbox did: it has no step, and on a busy machine a step may
    // doubt the rates that it begins with. What is changed below is a copy, which no later sandbox is given.
    void measure() const {
        std::vector<std::string> words = words_of(sandbox_.training());
        words.insert(words.begin(), "plan");
        must_succeed(sandbox_.windlass(words));
        std::filesystem::copy(sandbox_.cache(), sandbox_ / "cache", std::filesystem::copy_options::recursive);
    }
    // The lines of rates with these names have this rate from now on. Returns the kept file's path: that of one thread
    // and of no drive, among those that earlier sandboxes measured.
    std::string keep(const std::string& names, const std::string& rate) const {
        std::string kept;
        for (const auto& entry : std::filesystem::directory_iterator(sandbox_ / "cache/windlass"))
            if (entry.path().filename().string().ends_with("-1.txt")) kept = entry.path();
        const std::string text = read_bytes(kept),
                          changed = std::regex_replace(text, std::regex("\n(" + names + "): [^\n]*"), "\n$1: " + rate);
        EXPECT_NE(changed, text);
        write_bytes(kept, changed);
        return kept;
    }
    void expect_doubts(const Finished& finished, const std::string& kept) const {
        EXPECT_THAT(finished.err, testing::HasSubstr("the next command measures it again"));
        EXPECT_FALSE(std::filesystem::exists(kept));
        EXPECT_THAT(read_bytes(sandbox_.out() + "/metrics.jsonl"), testing::HasSubstr("\"mfu\":0"));
    }

  private:
    Command here(Command command) const {
        command.environment["XDG_CACHE_HOME"] = sandbox_ / "cache";
        return command;
    }

  protected:
    mutable Sandbox sandbox_;
};

// No share of a peak is above the whole, in lines and in metrics; and the next command measures anew.
TEST_F(StaleRates, OfProductsAreDoubtedAndNoShareOfThemIsTold) {
    measure();
    const std::string kept = keep("gemm_(?:bf16|f32)_flops", "0.000001 TFLOP/s");
    const Finished finished = train();
    expect_doubts(finished, kept);
    for (const std::string& text : {finished.err, read_bytes(sandbox_.out() + "/log.txt")})
        EXPECT_FALSE(std::regex_search(text, std::regex("mfu [0-9]{3,}%"))) << text;
}

TEST_F(StaleRates, OfMemoryAreDoubtedByAStepThatTakesAFractionOfItsPlan) {
    measure();
    keep("gemm_(?:bf16|f32)_flops", "1000 TFLOP/s");  // which no step doubts
    const std::string kept = keep("(?:device_)?memory_bytes_per_s", "1 MB/s");
    // Plans are of a step that does the update of the one before: the first has none, and says nothing.
    train({{"max_steps", "1"}});
    EXPECT_TRUE(std::filesystem::exists(kept));
    expect_doubts(train(), kept);
}

}  // namespace
}  // namespace windlass::cli
