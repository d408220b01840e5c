// What a refusal says to try is typed as it is printed, and works.
#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

struct Refusal {
    std::string name;
    Settings settings;  // on top of those of a short run
    bool on_disk = false;
    std::string tries;  // what the first way out begins with
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
    *out << refusal.name;
}

// The words of the first way out; DIR is a folder with room.
std::vector<std::string> words_to_try(const Sandbox& sandbox, const std::string& message) {
    std::istringstream line(said_after(message, "\n  Try: "));
    std::vector<std::string> words;
    for (std::string word; line >> word;) words.push_back(word == "DIR" ? sandbox / "drive" : word);
    return words;
}

class Refusals : public testing::TestWithParam<Refusal> {
  protected:
    Sandbox sandbox_;
};

// By `plan`, and by `train`, whose memory the system then limits.
TEST_P(Refusals, SayWhatWorksWhenItIsTyped) {
    Settings settings = GetParam().on_disk ? sandbox_.training_on_disk() : sandbox_.training();
    for (const auto& [key, value] : GetParam().settings) settings[key] = value;
    for (const char* verb : {"plan", "train"}) {
        std::vector<std::string> words = words_of(settings);
        words.insert(words.begin(), verb);
        if (words[0] == "plan") words.emplace_back("--alone");
        const Finished refused = run(sandbox_.windlass(words));
        ASSERT_EQ(refused.code, kNoFit) << describe(refused);
        const std::vector<std::string> tried = words_to_try(sandbox_, refused.err);
        EXPECT_THAT(fmt::format("{}", fmt::join(tried, " ")), testing::StartsWith(GetParam().tries))
            << describe(refused);
        words.insert(words.end(), tried.begin(), tried.end());
        must_succeed(sandbox_.windlass(words));
    }
    EXPECT_TRUE(std::filesystem::exists(sandbox_.out() + "/final/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(
    Of, Refusals,
    testing::Values(
        Refusal{"Memory", {{"ram", "20MiB"}}, false, "--ram "},
        Refusal{"MemoryOfOnePolicy", {{"ram", "20MiB"}, {"policy", "in_memory"}}, false, "--ram "},
        Refusal{"MemoryWithADrive", {{"ram", "20MiB"}, {"policy", "auto"}}, true, "--ram "},
        Refusal{"MemoryWithoutBackpropagation", {{"ram", "20MiB"}, {"method", "zeroth_order"}}, false, "--ram "},
        Refusal{"Disk", {{"ssd_space", "100kB"}}, true, "--ssd-dir "},
        Refusal{"Device", {{"device", "cpu:emulate"}, {"device_memory", "10KiB"}}, false, "--device-memory "},
        Refusal{"BothMemories",
                {{"device", "cpu:emulate"}, {"policy", "host_stream"}, {"device_memory", "10KiB"}, {"ram", "20MiB"}},
                false,
                "--ram "}),
    [](const auto& info) { return info.param.name; });

// Generation has no policy to choose.
TEST(Refusals, OfGenerationSayWhatWorksToo) {
    Sandbox sandbox;
    std::vector<std::string> words = {"generate", sandbox.model(), "--prompt", "a", "--max-new-tokens",
                                      "2",        "--threads",     "1"};
    std::vector<std::string> narrow = words;
    narrow.insert(narrow.end(), {"--ram", "1MiB"});
    const Finished refused = run(sandbox.windlass(narrow));
    ASSERT_EQ(refused.code, kNoFit) << describe(refused);
    const std::vector<std::string> tried = words_to_try(sandbox, refused.err);
    ASSERT_EQ(tried.size(), 2u) << describe(refused);
    words.insert(words.end(), tried.begin(), tried.end());
    must_succeed(sandbox.windlass(words));
}

}  // namespace
}  // namespace windlass::cli
