#include "model/spec.h"

namespace windlass {
namespace {

// One counter serves four elements: none of them belong to two parameters.
TEST(ModelSpec, ElementsAreCountedInCanonicalOrderByFours) {
    ModelSpec model;
    model.params = {
        {.name = "a", .shape = Shape{3, 3}}, {.name = "b", .shape = Shape{8}}, {.name = "c", .shape = Shape{1}}};
    EXPECT_EQ(element_starts(model), (std::vector<int64_t>{0, 12, 20}));
}

}  // namespace
}  // namespace windlass
