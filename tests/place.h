// place.h: where tests find the project's own files, its programs, and data that lie beside it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

namespace windlass {

/// The root of the source tree.
const std::string& source_dir();

/// The root of the build tree, where programs lie.
const std::string& binary_dir();

/// The path of `name` among the real models and data beside the project, which may be absent.
std::string shared_data(const std::string& name);

struct MissingData {
    std::string what;
    bool is_fault = false;  // not to be passed over
};
/// The first of `names` that is not in `folder`. A fault where the folder is there and `in_ci`: somebody meant to have
/// the data, and the test would be passed over for good.
std::optional<MissingData> missing_data(const std::string& folder, std::initializer_list<std::string> names,
                                        bool in_ci);
/// The same for real models and data; CI=true in the environment says where tests run.
std::optional<MissingData> missing_shared_data(std::initializer_list<std::string> names);

}  // namespace windlass

/// At the top of a test or of SetUp: skips it where these real models and data are absent, and fails it in CI where
/// only some are.
#define WINDLASS_NEEDS_SHARED_DATA(...)                                                \
    if (const auto missing = windlass::missing_shared_data({__VA_ARGS__}); !missing) { \
    } else if (missing->is_fault)                                                      \
        GTEST_FAIL() << missing->what;                                                 \
    else                                                                               \
        GTEST_SKIP() << missing->what
