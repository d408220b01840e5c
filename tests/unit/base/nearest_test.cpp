// What is suggested for a name that there is not.
#include "base/nearest.h"

namespace windlass {
namespace {

TEST(NearestName, TakesTheFewestChanges) {
    const std::string_view names[] = {"threads", "memory_bytes", "drives"};
    EXPECT_EQ(nearest_name("thread", names), "threads");
    EXPECT_EQ(nearest_name("memory_byte", names), "memory_bytes");
    EXPECT_EQ(nearest_name("divers", names), "drives");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
    const std::string_view names[] = {"threads", "drives"};
    EXPECT_EQ(nearest_name("colour", names), "");
    EXPECT_EQ(nearest_name(std::string(1000, 'x'), names), "");
    EXPECT_EQ(nearest_name("threads", {}), "");
}

TEST(NearestName, TakesTheFirstOfEquals) {
    const std::string_view names[] = {"abcd", "abce"};
    EXPECT_EQ(nearest_name("abcf", names), "abcd");
}

}  // namespace
}  // namespace windlass
