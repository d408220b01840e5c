#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/plural.h"

namespace windlass {
namespace {

std::string refusal_of_size(std::string_view text, std::string_view where) {
    try {
        parse_bytes(text, where, kGiB);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(ParseBytes, ReadsNumbersWithUnitsAndShares) {
    EXPECT_EQ(parse_bytes("8GiB", "ram"), 8 * kGiB);
    EXPECT_EQ(parse_bytes("1.5 MB", "ram"), 1'500'000);
    EXPECT_EQ(parse_bytes("512M", "ram"), 512 * kMiB);
    EXPECT_EQ(parse_bytes("100B", "ram"), 100);
    EXPECT_EQ(parse_bytes("25%", "ram", kGiB), kGiB / 4);
}

TEST(ParseBytes, RefusesSmallNumbersWithoutAUnit) {
    EXPECT_EQ(refusal_of_size("8", "--ram"), "--ram: 8 what? A size has a unit. Try: --ram 8GiB");
    EXPECT_EQ(refusal_of_size("0.5", "ram"), "ram: 0.5 what? A size has a unit. Try: ram: 0.5GiB");
    EXPECT_NE(refusal_of_size("1048575", "ram"), "");
    EXPECT_EQ(parse_bytes("1048576", "ram"), kMiB);
    EXPECT_EQ(parse_bytes("0", "ram"), 0);
}

// What it prints is one word that reads back as enough, and hardly more.
TEST(SizeToType, IsEnoughWhenItIsTyped) {
    EXPECT_EQ(size_to_type(0), "0B");
    EXPECT_EQ(size_to_type(512), "512B");
    EXPECT_EQ(size_to_type(kMiB), "1.00MiB");
    EXPECT_EQ(size_to_type(105'822'290), "101MiB");      // 100.92 MiB
    EXPECT_EQ(size_to_type(81'883'551'006), "76.3GiB");  // 76.26 GiB
    EXPECT_EQ(size_to_type(1023 * kMiB + 1), "1024MiB");
    std::vector<int64_t> sizes = {1, kKiB - 1, kKiB + 1, kGiB * 1000 + 1, (int64_t{1} << 50) + 1};
    for (int64_t bytes = 1; bytes < (int64_t{1} << 48); bytes += bytes / 7 + 1) sizes.push_back(bytes);
    for (const int64_t bytes : sizes) {
        const std::string typed = size_to_type(bytes);
        EXPECT_EQ(typed.find(' '), typed.npos);
        EXPECT_GE(parse_bytes(typed, "--ram"), bytes) << typed;
        EXPECT_LE(parse_bytes(typed, "--ram"), bytes + bytes / 100 + 1) << typed;
    }
}

TEST(Counted, SaysOneOfOne) {
    EXPECT_EQ(counted(1, "file"), "1 file");
    EXPECT_EQ(counted(0, "file"), "0 files");
    EXPECT_EQ(counted(2, "index", "indices"), "2 indices");
}

}  // namespace
}  // namespace windlass
