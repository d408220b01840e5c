#include "rows/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "rows/split_names.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

// A folder of empty files.
class DataFilesTest : public testing::Test {
  protected:
    void make(const Names& names) {
        for (const std::string& name : names) {
            const std::filesystem::path path = folder_ / name;
            std::filesystem::create_directories(path.parent_path());
            std::ofstream(path) << "";
        }
    }
    // Without the folder.
    Names find(const std::string& name, RowsUse use) {
        Names found = find_data_files(real_files(), {folder_ / name}, use);
        for (std::string& path : found) path = path.substr(folder_.path().size() + 1);
        return found;
    }
    std::string refusal(const std::string& name, RowsUse use = RowsUse::train) {
        try {
            find(name, use);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::data);
            return error.what();
        }
        return "";
    }
    TempFolder folder_;
};

TEST(SplitOfName, IsThatOfItsWords) {
    const std::vector<std::pair<std::string, std::string>> names = {{"train.jsonl", "train"},
                                                                    {"train-00000-of-00003.jsonl.gz", "train"},
                                                                    {"Alpaca_TRAINING2.json", "train"},
                                                                    {"validation", "validation"},
                                                                    {"my.valid.csv", "validation"},
                                                                    {"val.txt", "validation"},
                                                                    {"squad-dev-v2.0.json", "validation"},
                                                                    {"test2.jsonl", "test"},
                                                                    {"testing.jsonl", "test"},
                                                                    {"eval set.jsonl", "test"},
                                                                    {"evaluation.jsonl", "test"},
                                                                    // No words, or of several splits.
                                                                    {"pretrain.jsonl", ""},
                                                                    {"contest.jsonl", ""},
                                                                    {"latest.jsonl", ""},
                                                                    {"developers.jsonl", ""},
                                                                    {"values.jsonl", ""},
                                                                    {"éval.jsonl", ""},
                                                                    {"train_test.jsonl", ""},
                                                                    {"", ""}};
    for (const auto& [name, split] : names) {
        const std::optional<DataSplit> found = split_of_name(name);
        EXPECT_EQ(found ? name_of(*found) : "", split) << name;
    }
}

TEST_F(DataFilesTest, OfTheSplitThatIsMeantAreTaken) {
    make({"mlx/train.jsonl", "mlx/valid.jsonl", "mlx/test.jsonl"});
    make({"hub/dev-0.json", "hub/train-0.json", "hub/train-1.json", "hub/more.json", "hub/eval.json"});
    make({"rest/a.jsonl", "rest/test.jsonl"});
    make({"plain/a.jsonl", "plain/b.csv.gz"});
    make({"text/train.txt", "text/test.txt", "table/train.csv", "table/valid.tsv"});
    const std::vector<std::tuple<std::string, Names, Names>> tried = {
        {"mlx", {"mlx/train.jsonl"}, {"mlx/valid.jsonl"}},
        {"mlx/", {"mlx/train.jsonl"}, {"mlx/valid.jsonl"}},
        {"mlx/*.jsonl", {"mlx/train.jsonl"}, {"mlx/valid.jsonl"}},
        {"mlx/t*", {"mlx/train.jsonl"}, {"mlx/test.jsonl"}},
        {"hub", {"hub/train-0.json", "hub/train-1.json"}, {"hub/dev-0.json"}},
        {"rest", {"rest/a.jsonl"}, {"rest/test.jsonl"}},
        {"text", {"text/train.txt"}, {"text/test.txt"}},
        {"table", {"table/train.csv"}, {"table/valid.tsv"}},
        {"plain", {"plain/a.jsonl", "plain/b.csv.gz"}, {"plain/a.jsonl", "plain/b.csv.gz"}}};
    for (const auto& [name, train, evaluate] : tried) {
        EXPECT_EQ(find(name, RowsUse::train), train) << name;
        EXPECT_EQ(find(name, RowsUse::evaluate), evaluate) << name;
    }
}

TEST_F(DataFilesTest, AreNamedInALineWhereTheyAreLeftOut) {
    make({"mlx/train.jsonl", "mlx/valid.jsonl", "mlx/test.jsonl", "mlx/dataset_infos.json"});
    testing::internal::CaptureStderr();
    find("mlx", RowsUse::train);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("left out because of their names: " + (folder_ / "mlx/test.jsonl (test), ")));
    EXPECT_THAT(said, HasSubstr("--eval-data " + (folder_ / "mlx/valid.jsonl")));
    EXPECT_THAT(said, HasSubstr("describes data: " + (folder_ / "mlx/dataset_infos.json")));
}

// The user's own name may say a split; a folder that is called dev may hold train files all the same.
TEST_F(DataFilesTest, OfASplitThatIsNamedAreTaken) {
    make({"test/a.jsonl", "test/test.jsonl", "x/test-0.jsonl", "x/test-1.jsonl", "dev/train.jsonl", "dev/dev.jsonl"});
    EXPECT_THAT(find("test", RowsUse::train), ElementsAre("test/a.jsonl", "test/test.jsonl"));
    EXPECT_THAT(find("x/test*", RowsUse::train), ElementsAre("x/test-0.jsonl", "x/test-1.jsonl"));
    EXPECT_THAT(find("x/test-0.jsonl", RowsUse::train), ElementsAre("x/test-0.jsonl"));
    EXPECT_THAT(find("dev", RowsUse::train), ElementsAre("dev/train.jsonl"));
    EXPECT_THAT(find("dev", RowsUse::evaluate), ElementsAre("dev/dev.jsonl"));
}

TEST_F(DataFilesTest, OfFoldersNamedForSplitsAreTaken) {
    make(
        {"data/test/a.jsonl", "data/train/a.jsonl", "data/train/b.jsonl", "data/validation/c.jsonl", "data/README.md"});
    EXPECT_THAT(find("data", RowsUse::train), ElementsAre("data/train/a.jsonl", "data/train/b.jsonl"));
    EXPECT_THAT(find("data", RowsUse::evaluate), ElementsAre("data/validation/c.jsonl"));
    make({"other/test/a.jsonl"});
    EXPECT_THAT(refusal("other"), HasSubstr("no rows but in the folder test"));
}

TEST_F(DataFilesTest, InFoldersOfAFolderAreNamed) {
    make({"two/a/x.jsonl", "two/b/x.jsonl", "deep/data/train/x.jsonl", "deep/data/test/x.jsonl",
          "many/en/train/x.jsonl", "many/de/train/x.jsonl"});
    EXPECT_THAT(
        refusal("two"),
        HasSubstr(fmt::format("no rows but in folders a, b. Try: {0}/a; or several: [{0}/a, {0}/b]", folder_ / "two")));
    EXPECT_THAT(refusal("deep"),
                HasSubstr(fmt::format("no rows but in folders data/test, data/train. Try: {}/data", folder_ / "deep")));
    EXPECT_THAT(find("deep/data", RowsUse::train), ElementsAre("deep/data/train/x.jsonl"));
    make({"mixed/a/x.jsonl", "mixed/b/c/x.jsonl", "odd/a b/x.jsonl", "odd/c, d/x.jsonl"});
    EXPECT_THAT(refusal("mixed"), HasSubstr("no rows but in folders a, b/c. Try: "));
    EXPECT_THAT(refusal("odd"), HasSubstr(fmt::format("[\"{0}/a b\", \"{0}/c, d\"]", folder_ / "odd")));
    EXPECT_THAT(refusal("many"), HasSubstr(fmt::format("or several: [{0}/de, {0}/en]", folder_ / "many")));
}

TEST_F(DataFilesTest, ThatLinkToNothingAreNamed) {
    make({"links/train.jsonl"});
    std::filesystem::create_symlink(folder_ / "gone.jsonl", folder_ / "links/more.jsonl");
    EXPECT_THAT(refusal("links"),
                HasSubstr(folder_ / "links/more.jsonl: is a link to a file that is not there. Try: "));
}

TEST_F(DataFilesTest, ToTrainOnAreNotTestFilesThatNobodyNamed) {
    make({"data/test.jsonl", "data/valid.jsonl"});
    EXPECT_THAT(refusal("data"), testing::AllOf(HasSubstr("holds validation and test files alone"),
                                                HasSubstr("Try: " + (folder_ / "data/test.jsonl"))));
    EXPECT_THAT(refusal("data/*.jsonl"), HasSubstr("holds validation and test files alone"));
    EXPECT_THAT(find("data", RowsUse::evaluate), ElementsAre("data/valid.jsonl"));
}

// A shell fills in patterns: names of all files look as if each had been typed.
TEST_F(DataFilesTest, ThatAreHeldOutAndNamedAreWarnedOf) {
    make({"a/train.jsonl", "a/test.jsonl", "b/dev/x.jsonl"});
    const auto said = [&](const Names& names, RowsUse use) {
        testing::internal::CaptureStderr();
        EXPECT_EQ(find_data_files(real_files(), names, use), names);
        return testing::internal::GetCapturedStderr();
    };
    const std::string train = folder_ / "a/train.jsonl", test = folder_ / "a/test.jsonl",
                      dev = folder_ / "b/dev/x.jsonl";
    EXPECT_THAT(said({train, test}, RowsUse::train), HasSubstr("all are trained on: " + test));
    EXPECT_THAT(said({train, dev}, RowsUse::train), HasSubstr("all are trained on: " + dev));
    EXPECT_EQ(said({test}, RowsUse::train), "");
    EXPECT_EQ(said({train, test}, RowsUse::evaluate), "");
}

// "my_test_run" is no name of a split: what is in it is.
TEST_F(DataFilesTest, OfAFolderWithATestInItsNameAreNotTrained) {
    make({"my_test_run/test.jsonl", "my_test_run/dev.jsonl", "test/test.jsonl"});
    EXPECT_THAT(refusal("my_test_run"), HasSubstr("holds validation and test files alone"));
    EXPECT_THAT(find("test", RowsUse::train), ElementsAre("test/test.jsonl")) << "named so by the user";
}

TEST_F(DataFilesTest, ThatAreNotReadAreNamed) {
    make({"a/train.parquet", "a/test.jsonl", "b/train.parquet", "b/rows.jsonl", "c/train.zip", "c/test.jsonl"});
    EXPECT_THAT(refusal("a"),
                testing::AllOf(HasSubstr("a/train.parquet, which is not read, and validation and test files"),
                               HasSubstr("Try: make rows of it: python")));
    EXPECT_THAT(refusal("c"), HasSubstr("c/train.zip, which is not read"));
    testing::internal::CaptureStderr();
    EXPECT_THAT(find("b", RowsUse::train), ElementsAre("b/rows.jsonl"));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not read, though it may hold rows: "));
}

TEST_F(DataFilesTest, ToEvaluateThatAreTrainFilesAreWarnedOf) {
    make({"a/train.jsonl", "b/rows.jsonl"});
    testing::internal::CaptureStderr();
    find("a", RowsUse::evaluate);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("evaluates train files, since it holds no others"));
    testing::internal::CaptureStderr();
    find("b", RowsUse::evaluate);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(HasSubstr("evaluates train files")));
}

TEST_F(DataFilesTest, ThatDescribeDataAreNoRows) {
    make({"data/rows.json", "data/dataset_infos.json", "data/dataset_info.json", "data/README.txt", "data/LICENSE.txt",
          "data/state.json", "data/readme.de.txt", "data/requirements.txt", "data/states.json"});
    EXPECT_THAT(find("data", RowsUse::train), ElementsAre("data/rows.json", "data/states.json"));
    EXPECT_THAT(find("data/state.json", RowsUse::train), ElementsAre("data/state.json"));
}

TEST_F(DataFilesTest, OfSaveToDiskAreRefusedWithTheCommandThatConvertsThem) {
    make({"one/state.json", "one/dataset_info.json", "one/data-00000-of-00001.arrow"});
    const std::string head = "python -c \"from datasets import load_from_disk as d; d('";
    EXPECT_THAT(refusal("one"), testing::AllOf(HasSubstr("as save_to_disk writes it"),
                                               HasSubstr(head + (folder_ / "one').to_json('rows.jsonl')\""))));
    make({"many/dataset_dict.json", "many/test/state.json", "many/test/dataset_info.json", "many/test/d.arrow",
          "many/train/state.json", "many/train/dataset_info.json", "many/train/d.arrow"});
    EXPECT_THAT(refusal("many"), HasSubstr(head + (folder_ / "many')['train'].to_json('rows.jsonl')\"")));
    EXPECT_THAT(refusal("many", RowsUse::evaluate), HasSubstr("['test']"));
    EXPECT_THAT(refusal("many/train"), HasSubstr(head + (folder_ / "many/train').to_json(")));
    make({"above/saved/state.json", "above/saved/dataset_info.json", "above/saved/d.arrow"});
    EXPECT_THAT(refusal("above"), HasSubstr(head + (folder_ / "above/saved').to_json(")));
    // Rows that somebody made there are rows.
    make({"one/rows.jsonl"});
    EXPECT_THAT(find("one", RowsUse::train), ElementsAre("one/rows.jsonl"));
}

}  // namespace
}  // namespace windlass
