#include "model/spec.h"

namespace windlass {
namespace {

// The counters of 256 elements are drawn together: none of them belong to two parameters.
TEST(ModelSpec, ElementsAreCountedInCanonicalOrderByBlocks) {
    ModelSpec model;
    model.params = {
        {.name = "a", .shape = Shape{3, 100}}, {.name = "b", .shape = Shape{256}}, {.name = "c", .shape = Shape{1}}};
    EXPECT_EQ(global_offsets(model), (std::vector<int64_t>{0, 512, 768}));
}

}  // namespace
}  // namespace windlass
