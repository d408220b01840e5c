#include "config/run_place.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "config/model_place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

class RunPlace : public testing::Test {
  protected:
    void write(const std::string& name, const std::string& text) { write_text_atomic(files_, folder_ / name, text); }
    std::string problem(const std::function<void()>& call) {
        try {
            call();
        } catch (const UserError& error) {
            return error.what();
        }
        return "no problem";
    }

    FileSystem& files_ = real_files();
    TempFolder folder_;
    const std::string id_ = "# run 0123456789abcdef0123456789abcdef: in its checkpoints\n";
};

TEST_F(RunPlace, ARunIsToldByItsLockOrItsId) {
    EXPECT_FALSE(is_run_folder(files_, folder_.path()));
    write("run.yaml", "# run this with care\nmodel: m\n");
    EXPECT_FALSE(is_run_folder(files_, folder_.path()));
    write(".lock", "");
    EXPECT_TRUE(is_run_folder(files_, folder_.path()));
    files_.remove_file(folder_ / ".lock");
    write("run.yaml", id_ + "model: m\n");
    EXPECT_TRUE(is_run_folder(files_, folder_.path()));
}

TEST_F(RunPlace, AFolderMeansTheConfigurationInIt) {
    EXPECT_THAT(problem([&] { config_file_of(files_, folder_.path()); }),
                testing::HasSubstr("is a folder without a run.yaml"));
    write("run.yaml", "model: m\n");
    EXPECT_EQ(config_file_of(files_, folder_.path()), folder_ / "run.yaml");
    EXPECT_EQ(config_file_of(files_, folder_.path() + "//"), folder_ / "run.yaml");
    EXPECT_EQ(config_file_of(files_, folder_ / "run.yaml"), folder_ / "run.yaml");
    EXPECT_EQ(config_file_of(files_, folder_ / "absent.yaml"), folder_ / "absent.yaml");
}

TEST_F(RunPlace, ARunsSettingsMeanTheRun) {
    write("run.yaml", "model: m\n");
    EXPECT_EQ(run_folder_of(files_, folder_ / "run.yaml"), folder_ / "run.yaml");
    write(".lock", "");
    EXPECT_EQ(run_folder_of(files_, folder_ / "run.yaml"), folder_.path());
    EXPECT_EQ(run_folder_of(files_, folder_.path() + "/"), folder_.path());
    EXPECT_EQ(run_folder_of(files_, "Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B");
}

// A folder with a configuration that a user wrote has not begun to be a run.
TEST_F(RunPlace, AConfigurationIsNoRunThatHasNotEnded) {
    write("run.yaml", "model: m\n");
    const std::string text = problem([&] { find_model(files_, folder_.path()); });
    EXPECT_THAT(text, testing::HasSubstr("holds a configuration"));
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("Try: windlass train {}/run.yaml", folder_.path())));
    write(".lock", "");
    EXPECT_THAT(problem([&] { find_model(files_, folder_.path()); }),
                testing::HasSubstr("is a run that has not ended"));
}

TEST_F(RunPlace, AFolderIsNoFile) {
    EXPECT_THAT(problem([&] { read_text(files_, folder_.path(), 100); }),
                testing::HasSubstr("is a folder, expected a file"));
}

}  // namespace
}  // namespace windlass
