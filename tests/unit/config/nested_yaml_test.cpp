// Settings are flat: YAML that nests a hundred thousand times is refused, and overflows no stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"
#include "config/foreign/translate.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

// The beginnings of values within values, and those that once crashed yaml-cpp.
constexpr const char* kOpenings[] = {"[",    "{",    "[{",   "{a: ",  "- ",  "? ",      "- - ",
                                     "? - ", "!a [", "&a [", "[*a, ", "{? ", "a: {b: ["};

template <typename Read>
void expect_refusal(const Read& read, const std::string& opening) {
    try {
        read();
        ADD_FAILURE() << opening;
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
        EXPECT_LT(std::string_view(error.what()).size(), 2000u) << opening;
    }
}

TEST(NestedYaml, IsRefused) {
    const TempFolder folder;
    const std::string path = folder / "x.yaml";
    for (const char* const opening : kOpenings) {
        std::string nested;
        while (nested.size() < 200'000) nested += opening;
        for (const char* const key : {"", "model: ", "base_model: m\ndatasets: "}) {
            write_bytes(path, key + nested);
            const std::vector<std::string> words = {path};
            expect_refusal([&] { make_config(read_config_sources(real_files(), words), ConfigUse::train); }, opening);
            expect_refusal([&] { translate_config(real_files(), path); }, opening);
        }
    }
}

}  // namespace
}  // namespace windlass
