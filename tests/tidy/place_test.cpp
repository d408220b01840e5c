// Tests on real data are passed over only where nobody has the data.
#include <filesystem>
#include <fstream>

#include "tests/place.h"

namespace windlass {
namespace {

TEST(SharedData, IsPassedOverOnlyWhereTheWholeFolderIsAbsent) {
    const std::string folder = testing::TempDir() + "windlass-place-test";
    std::filesystem::remove_all(folder);
    for (const bool in_ci : {false, true}) {
        const auto missing = missing_data(folder, {"model"}, in_ci);
        ASSERT_TRUE(missing);
        EXPECT_FALSE(missing->is_fault);
        EXPECT_EQ(missing->what, folder + " is not here");
    }
    std::filesystem::create_directories(folder + "/model");
    for (const bool in_ci : {false, true}) {
        EXPECT_FALSE(missing_data(folder, {"model"}, in_ci));
        const auto missing = missing_data(folder, {"model", "rows.tsv"}, in_ci);
        ASSERT_TRUE(missing);
        EXPECT_EQ(missing->is_fault, in_ci);
        EXPECT_EQ(missing->what, folder + "/rows.tsv is not here");
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace windlass
