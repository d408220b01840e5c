#include "device/cuda/vendor_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFile = "libwindlass_of_nobody.so.1";

class VendorLibrary : public testing::Test {
  protected:
    void put(const std::string& folder) const {
        fs::create_directories(site_ / folder);
        std::ofstream(site_ / (folder + "/" + kFile)) << "no library";
    }
    std::vector<std::string> names(const std::string& folders = "") const {
        return vendor_library_names(kFile, folders, site_ / "windlass_train/bin");
    }
    std::string path(const std::string& folder) const { return site_ / (folder + "/" + kFile); }

    const TempFolder site_;
};

TEST_F(VendorLibrary, IsLookedForByTheLoaderIfItIsNowhere) {
    EXPECT_THAT(names(), ElementsAre(kFile));
    EXPECT_THAT(names("/nowhere::/neither"), ElementsAre(kFile));
}

TEST_F(VendorLibrary, IsFoundWhereTheUserSaysFirst) {
    for (const char* folder :
         {"mine", "windlass_train/bin", "windlass_train/lib", "nvidia/cublas/lib", "nvidia/cu13/lib"})
        put(folder);
    const std::string bin = site_ / "windlass_train/bin";
    EXPECT_THAT(names(site_ / "absent" + ":" + (site_ / "mine")),
                ElementsAre(path("mine"), path("windlass_train/bin"), bin + "/../lib/" + kFile,
                            bin + "/../../nvidia/cu13/lib/" + kFile, bin + "/../../nvidia/cublas/lib/" + kFile, kFile));
}

TEST_F(VendorLibrary, ThatCannotBeOpenedIsAnErrorWithEveryReason) {
    put("mine");
    ASSERT_EQ(setenv("WINDLASS_CUDA_LIBRARIES", (site_ / "mine").c_str(), 1), 0);
    try {
        open_vendor_library(kFile);
        ADD_FAILURE();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::gpu);
        EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path("mine")), HasSubstr("No such file"),
                                                 HasSubstr("WINDLASS_CUDA_LIBRARIES"), HasSubstr("nvidia-cublas")));
    }
    unsetenv("WINDLASS_CUDA_LIBRARIES");
}

}  // namespace
}  // namespace windlass
