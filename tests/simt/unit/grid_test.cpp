// Counts of blocks are as long as their factors make them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "op/attention_cuda.h"

namespace windlass {
namespace {

using testing::HasSubstr;

// Blocks of a grid are counted in 64 bits: of 2^17 * 2^9 * 2^10 / 2^4 of them 32 bits would hold 0.
TEST(CudaGrid, ThatNoCardTakesIsRefusedByItsNumber) {
    const std::unique_ptr<Device> device = make_device({.kind = DeviceKind::cuda, .own_memory = true});
    const std::unique_ptr<Stream> stream = device->make_stream(1);
    AttentionArgs args{
        .rows = 1 << 9, .length = 1 << 17, .heads = 1 << 10, .key_heads = 1 << 10, .head_size = 64, .scale = 1};
    for (const bool is_bf16 : {false, true}) {
        args.rows = (is_bf16 ? 8 : 1) << 9;  // of tiles of 128 rows instead of 16
        for (const auto launch : {launch_attention_forward, launch_attention_tangent}) {
            try {
                launch(is_bf16, args, cuda_handle(*stream));
                ADD_FAILURE() << "it was launched";
            } catch (const UserError& error) {
                EXPECT_EQ(error.code(), ExitCode::gpu);
                EXPECT_THAT(error.what(), HasSubstr("x 1 blocks, and no card takes more than 2147483647"));
            }
        }
    }
}

}  // namespace
}  // namespace windlass
