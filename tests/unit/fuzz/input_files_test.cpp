#include "tests/fuzz/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace windlass {
namespace {

std::string split(std::string_view input) {
    std::string text;
    for (const InputFile& file : split_input(input, "first")) text += fmt::format("[{}|{}]", file.name, file.bytes);
    return text;
}

TEST(FuzzInput, IsOneFileOrSeveral) {
    EXPECT_EQ(split(""), "[first|]");
    EXPECT_EQ(split("ab\ncd\n"), "[first|ab\ncd\n]");
    EXPECT_EQ(split("ab\n==> x.txt\ncd\n"), "[first|ab][x.txt|cd\n]");
    EXPECT_EQ(split("==> x\n==> y\n\n==> z"), "[x|][y|][z|]");
    EXPECT_EQ(split("a ==> x\n==>y\n"), "[first|a ==> x\n==>y\n]");
}

TEST(FuzzInput, IsAllThatExists) {
    InputFiles folder("ab\n==> other\ncd\n==> ../up\nx", "first");
    EXPECT_THAT(folder.names(), testing::ElementsAre("first", "other"));
    EXPECT_EQ(read_text(folder.files(), folder.path("other"), 10), "cd");
    EXPECT_FALSE(folder.files().exists("/etc/passwd"));
    EXPECT_THROW(read_text(folder.files(), "/etc/passwd", 1 << 20), MachineError);
    EXPECT_THROW(folder.files().make_folders("relative"), MachineError);
}

}  // namespace
}  // namespace windlass
