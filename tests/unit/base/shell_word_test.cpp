#include "base/shell_word.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <vector>

namespace windlass {
namespace {

// What a shell makes of a command that prints its words, a line each.
std::string read_by_shell(const std::string& command) {
    std::FILE* const pipe = ::popen(("printf '%s\\n' " + command).c_str(), "r");
    std::string text;
    std::array<char, 256> piece{};
    while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) text += piece.data();
    ::pclose(pipe);
    return text;
}

TEST(ShellWord, IsReadBackByAShell) {
    const std::vector<std::string> words = {"runs/a",  "a b",   "it's",  "",     "$HOME", "a;b", "~/x",
                                            "key=[1]", "\\n\\", "\"q\"", "a*b?", "`x`",   "#a",  "--flag"};
    std::string expected;
    for (const std::string& word : words) expected += word + "\n";
    EXPECT_EQ(read_by_shell(shell_command(words)), expected);
}

TEST(ShellWord, IsLeftAloneWhereItIsPlain) {
    EXPECT_EQ(shell_command(std::vector<std::string>{"windlass", "train", "runs/a-1_b/run.yaml", "--resume"}),
              "windlass train runs/a-1_b/run.yaml --resume");
    EXPECT_EQ(shell_word("my runs/a"), "'my runs/a'");
}

}  // namespace
}  // namespace windlass
