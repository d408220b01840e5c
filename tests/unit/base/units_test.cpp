#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Counted, SaysOneOfOne) {
    EXPECT_EQ(counted(1, "file"), "1 file");
    EXPECT_EQ(counted(0, "file"), "0 files");
    EXPECT_EQ(counted(2, "index", "indices"), "2 indices");
}

}  // namespace
}  // namespace windlass
