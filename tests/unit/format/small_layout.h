// small_layout.h: the layout of a store of four parameters, in eight chunks.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "format/store_map.h"

namespace windlass {

inline StoreLayout small_layout(int versions = 2) {
    return {.params = {{"embed", 700}, {"norm", 3}, {"up.weight", 512}, {"bias", 257}},
            .chunk_elements = 256,
            .versions = versions,
            .weight_bytes = 2,
            .sections = {{"lo", 2}, {"m", 4}, {"v", 4}},
            .run_state_bytes_max = 10000,
            .meta = R"({"numerics": "bf16"})"};
}

template <typename Action>
std::string user_error_of(Action action) {
    try {
        action();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        return error.what();
    }
    return "no error";
}

}  // namespace windlass
