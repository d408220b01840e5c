// Numbers as parameters keep them: a team makes the bytes that one thread makes.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "device/cpu/team.h"
#include "method/trained_model.h"

namespace windlass {
namespace {

TEST(EncodeKept, HasOneResultOnAnyThreads) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::nf4}) {
        const LoneParam param{.spec = {.name = "w", .file_dtype = DType::bf16},
                              .storage = {.store = StoreType::as_file, .dtype = type}};
        for (const int64_t count : {int64_t{1}, int64_t{1} << 14, int64_t{50'001}}) {
            Random random(5, RandomStream::test);
            std::vector<float> numbers(static_cast<size_t>(count));
            for (float& number : numbers) number = random.normal();
            std::vector<std::byte> one(static_cast<size_t>(stored_bytes(type, count))), several(one.size());
            encode_kept(param, numbers, one);
            Team team(3);
            encode_kept(param, numbers, several, &team);
            EXPECT_TRUE(one == several) << dtype_name(type) << ", " << count;
        }
    }
}

}  // namespace
}  // namespace windlass
