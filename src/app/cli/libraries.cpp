#include "app/cli/libraries.h"

#include <csv.h>
#include <lzma.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <CLI/Version.hpp>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "device/cuda/runtime.h"
#include "op/gemm.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace windlass {
namespace {

constexpr uint32_t k0BsdLzma = 50060002;  // 5.6.0, as lzma_version_number() says it

std::string joined_version(unsigned major, unsigned minor, unsigned patch) {
    return fmt::format("{}.{}.{}", major, minor, patch);
}

// "10.42 2022-12-11": the date is left out.
std::string pcre2_version() {
    std::array<char, 64> text{};
    pcre2_config(PCRE2_CONFIG_VERSION, text.data());
    const std::string_view whole = text.data();
    return std::string(whole.substr(0, whole.find(' ')));
}

// "oneDNN 3.7.2" without the name.
std::string onednn_version() {
    const std::string name = product_library();
    return name.substr(name.rfind(' ') + 1);
}

std::string xxhash_version() {
    const unsigned number = XXH_versionNumber();
    return joined_version(number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

std::vector<Library> libraries() {
    std::vector<Library> all = {
        {"oneDNN", onednn_version(), "Apache-2.0"},
        {"fmt", joined_version(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100), "MIT"},
        {"nlohmann-json",
         joined_version(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH), "MIT"},
        {"yaml-cpp", WINDLASS_YAML_CPP_VERSION, "MIT"},
        {"CLI11", CLI11_VERSION, "BSD-3-Clause"},
        {"Random123", "", "BSD-3-Clause"},
        {"Boost", WINDLASS_BOOST_VERSION, "BSL-1.0"},
        {"Chart.js", WINDLASS_CHART_VERSION, "MIT"},
        {"liburing", WINDLASS_URING_VERSION, "LGPL-2.1-or-later OR MIT"},
        {"libedit", WINDLASS_EDIT_VERSION, "BSD-3-Clause"},
        {"PCRE2", pcre2_version(), "BSD-3-Clause"},
        {"utf8proc", utf8proc_version(), "MIT AND Unicode-DFS-2015"},
        {"xxHash", xxhash_version(), "BSD-2-Clause"},
        {"ISA-L", WINDLASS_ISAL_VERSION, "BSD-3-Clause"},
        {"zstd", ZSTD_versionString(), "BSD-3-Clause OR GPL-2.0-only"},
        {"zlib", zlibVersion(), "Zlib"},
        {"liblzma", lzma_version_string(), lzma_version_number() < k0BsdLzma ? "public domain" : "0BSD"},
        {"libcsv", joined_version(CSV_MAJOR, CSV_MINOR, CSV_RELEASE), "LGPL-2.1-or-later"},
        {"libstdc++, libgcc, libgomp", "", "GPL-3.0-or-later WITH GCC-exception-3.1"},
        {"glibc", "", "LGPL-2.1-or-later"},
        {"ocl-icd (of oneDNN)", "", "BSD-2-Clause"},
        {"ncurses (of libedit)", "", "X11"},
        {"libbsd, libmd (of libedit)", "", "BSD-3-Clause and other permissive ones"},
    };
    if (find_cuda_runtime() != nullptr) all.push_back({"CUDA runtime", "", "LicenseRef-NVIDIA-CUDA-Toolkit-EULA"});
    return all;
}

}  // namespace windlass
