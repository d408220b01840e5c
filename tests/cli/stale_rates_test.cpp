// Rates that were measured while the machine was busy are too low: a step that beats them says so.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

// No share of a peak is above the whole, in lines and in metrics; and the next command measures anew.
TEST(StaleRates, AreDoubtedAndNoShareOfThemIsTold) {
    Sandbox sandbox;
    const auto train = [&] {
        Command command = sandbox.train(sandbox.training(), {"--overwrite"});
        command.environment["XDG_CACHE_HOME"] = sandbox / "cache";
        return must_succeed(command);
    };
    train();
    std::string kept;
    for (const auto& entry : std::filesystem::directory_iterator(sandbox / "cache/windlass"))
        if (entry.path().filename().string().starts_with("machine-")) kept = entry.path();
    ASSERT_FALSE(kept.empty());
    const std::regex peaks("\n(gemm_(bf16|f32)_flops): [^\n]*");
    write_bytes(kept, std::regex_replace(read_bytes(kept), peaks, "\n$1: 0.000001 TFLOP/s"));
    const Finished finished = train();
    EXPECT_THAT(finished.err, testing::HasSubstr("the next command measures them anew"));
    EXPECT_FALSE(std::filesystem::exists(kept));
    for (const std::string& text : {finished.err, read_bytes(sandbox.out() + "/log.txt")})
        EXPECT_FALSE(std::regex_search(text, std::regex("mfu [0-9]{3,}%"))) << text;
    EXPECT_THAT(read_bytes(sandbox.out() + "/metrics.jsonl"), testing::HasSubstr("\"mfu\":0"));
}

}  // namespace
}  // namespace windlass::cli
