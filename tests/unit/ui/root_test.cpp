#include "ui/root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/base/temp_folder.h"
#include "ui/http.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A root with a run, a link out of it and one within, and a folder next to it with a model.
class RootTest : public testing::Test {
  protected:
    RootTest() {
        fs::create_directories(in("root/runs/a"));
        fs::create_directories(in("models/m"));
        std::ofstream(in("root/runs/a/log.txt")) << "0123456789";
        std::ofstream(in("root/.hidden")) << "x";
        std::ofstream(in("secret")) << "secret";
        fs::create_symlink(in("secret"), in("root/out"));
        fs::create_symlink("runs", in("root/inner"));
        mkfifo(in("root/pipe").c_str(), 0600);
    }
    std::string in(const std::string& path) const { return folder_ / path; }
    Root root() const { return {in("root"), {in("models"), in("no such folder")}}; }
    bool takes(const std::string& path) const {
        try {
            return root().checked(path, "key") == path;
        } catch (const HttpRefusal& refusal) {
            EXPECT_EQ(refusal.status(), 400);
            EXPECT_THAT(refusal.what(), HasSubstr("key"));
            return false;
        }
    }

  private:
    const TempFolder folder_;
};

TEST_F(RootTest, TakesPathsBeneathItWhetherTheyExistOrNot) {
    for (const std::string path : {"runs/a", "runs", ".", "runs/new/deep", "a/../runs", "inner/a", "rows/*.jsonl"})
        EXPECT_EQ(takes(path), path != std::string("a/../runs")) << path;
    EXPECT_TRUE(takes(in("root/runs/b")));
    EXPECT_TRUE(takes(in("root")));
    EXPECT_TRUE(takes(in("models/m"))) << "of a folder that may be used too";
}

TEST_F(RootTest, RefusesWhatLeadsOut) {
    const std::string long_path(5000, 'a');
    for (const std::string& path :
         {std::string("../secret"), std::string("runs/../../secret"), std::string("/etc/passwd"), std::string("out"),
          std::string("new/../../secret"), in("secret"), in("rootless"), in("models/../secret"), std::string(),
          std::string("--overwrite"), std::string("a\0b", 3), long_path, std::string("/proc/self/exe")})
        EXPECT_FALSE(takes(path)) << path;
}

TEST_F(RootTest, ReadsPartsOfRegularFiles) {
    const Root root = this->root();
    EXPECT_EQ(root.read("runs/a/log.txt", 0, 100).bytes, "0123456789");
    EXPECT_EQ(root.read("runs/a/log.txt", 4, 3).bytes, "456");
    const PartOfFile tail = root.read("runs/a/log.txt", -4, 100);
    EXPECT_EQ(tail.bytes, "6789");
    EXPECT_EQ(tail.begin, 6);
    EXPECT_EQ(root.read("runs/a/log.txt", -400, 100).begin, 0);
    EXPECT_EQ(root.read("runs/a/log.txt", 10, 100).begin, 10) << "nothing is new";
    EXPECT_EQ(root.read("runs/a/log.txt", 11, 100).begin, 0) << "it was begun again";
    for (const char* path : {"out", "pipe", "runs", "nothing", "../secret"})
        EXPECT_EQ(root.read(path, 0, 100).bytes, "") << path;
}

TEST_F(RootTest, MakesAFileWhereItMay) {
    root().touch("runs/a/stop");
    EXPECT_TRUE(fs::exists(in("root/runs/a/stop")));
    EXPECT_THROW(root().touch("../stop"), MachineError);
    EXPECT_FALSE(fs::exists(in("stop")));
}

TEST_F(RootTest, WalksWithoutLinksAndHiddenFiles) {
    std::vector<std::string> seen;
    const auto see = [&](const std::string& path, int64_t) { seen.push_back(path); };
    root().walk(4, 100, see);
    EXPECT_THAT(seen, ElementsAre("runs/a/log.txt"));
    seen.clear();
    root().walk(1, 100, see);
    EXPECT_TRUE(seen.empty()) << "it is two folders deep";
    root().walk(4, 1, see);
    EXPECT_TRUE(seen.empty()) << "one entry was seen: a folder";
}

TEST_F(RootTest, MustBeAFolder) {
    EXPECT_THROW(Root(in("secret"), {}), UserError);
    EXPECT_THROW(Root(in("nothing"), {}), UserError);
}

}  // namespace
}  // namespace windlass
