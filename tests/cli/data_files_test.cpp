// Several files, folders and patterns as data.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"
#include "tests/unit/rows/compressed.h"

namespace windlass::cli {
namespace {

using fixtures::compressed;
using testing::HasSubstr;
using testing::Not;

class DataFiles : public testing::Test {
  protected:
    DataFiles() {
        std::filesystem::create_directory(sandbox_ / "rows");
        a_ = sandbox_.rows("rows/a.jsonl", {R"({"text": "the first row"})", R"({"text": "the second"})"});
        b_ = sandbox_.rows("rows/b.jsonl", {R"({"text": "one more row"})"});
        write_bytes(sandbox_ / "rows/notes.md", "no rows");
    }
    // Rows that eval scores, and how it scores them.
    Json eval(const std::vector<std::string>& data) {
        std::vector<std::string> words = {"eval", sandbox_.model(), "--json"};
        words.insert(words.end(), data.begin(), data.end());
        return json_of(sandbox_.windlass(words));
    }
    Finished dry(const std::vector<std::string>& words) {
        std::vector<std::string> all = {"train", "--dry-run", "model=" + sandbox_.model(),
                                        "output_dir=" + sandbox_.out()};
        all.insert(all.end(), words.begin(), words.end());
        return run(sandbox_.windlass(all));
    }
    Sandbox sandbox_;
    std::string a_, b_;
};

TEST_F(DataFiles, AreEvaluatedTogetherHoweverTheyAreNamed) {
    const Json one = eval({"--data", a_}), both = eval({"--data", a_, "--data", b_});
    EXPECT_EQ(one.at("rows"), 2);
    EXPECT_EQ(both.at("rows"), 3);
    EXPECT_NE(one.at("loss"), both.at("loss"));
    const std::vector<std::vector<std::string>> ways = {{"--data", a_, b_},
                                                        {"--data", sandbox_ / "rows"},
                                                        {"--data", sandbox_ / "rows/*.jsonl"},
                                                        {"--eval-data", a_, b_}};
    for (const auto& way : ways) {
        const Json json = eval(way);
        EXPECT_EQ(json.at("loss"), both.at("loss")) << way[1];
        EXPECT_EQ(json.at("rows"), 3) << way[1];
    }
}

TEST_F(DataFiles, OfARunAreWrittenOutInOrder) {
    const std::vector<std::vector<std::string>> ways = {{"--train-data", a_, b_},
                                                        {"--train-data", a_, "--train-data", b_},
                                                        {"--train-data", sandbox_ / "rows/"},
                                                        {"train_data=" + (sandbox_ / "rows/[ab].jsonl")}};
    for (const auto& way : ways) {
        const Finished finished = dry(way);
        EXPECT_EQ(finished.code, 0) << describe(finished);
        // Quoted or not, in this order.
        const size_t first = finished.out.find("/rows/a.jsonl"), second = finished.out.find("/rows/b.jsonl");
        EXPECT_NE(first, std::string::npos) << finished.out;
        EXPECT_NE(second, std::string::npos) << finished.out;
        EXPECT_LT(first, second);
        EXPECT_THAT(finished.out, Not(HasSubstr("notes.md")));
    }
}

// Compressed or in a table, rows are the same rows; and a folder, a pattern or a shell's glob finds such files.
TEST_F(DataFiles, AreTheSameInEveryKind) {
    const Json plain = eval({"--data", a_});
    const std::string lines = read_bytes(a_), table = "n,text\n1,the first row\n2,\"the second\"\n";
    std::filesystem::create_directory(sandbox_ / "packed");
    write_bytes(sandbox_ / "packed/a.jsonl.gz", compressed(lines, Compression::gzip));
    write_bytes(sandbox_ / "packed/b.csv.zst", compressed(table, Compression::zstd));
    write_bytes(sandbox_ / "packed/c.csv", table);
    write_bytes(sandbox_ / "packed/d.ndjson.xz", compressed(lines, Compression::xz));
    const std::vector<std::string> names = {"a.jsonl.gz", "b.csv.zst", "c.csv", "d.ndjson.xz"};
    for (const std::string& name : names) {
        const Json json = eval({"--data", sandbox_ / "packed/" + name});
        EXPECT_EQ(json.at("loss"), plain.at("loss")) << name;
        EXPECT_EQ(json.at("rows"), 2) << name;
    }
    EXPECT_EQ(eval({"--data", sandbox_ / "packed"}).at("rows"), 8);
    EXPECT_EQ(eval({"--data", sandbox_ / "packed/*.zst"}).at("rows"), 2);
    EXPECT_EQ(eval({"--data", sandbox_ / "packed/a.jsonl.gz", sandbox_ / "packed/c.csv"}).at("rows"), 4);
}

// Test files are not trained, and are what is evaluated, of rows that are no chats too.
TEST_F(DataFiles, OfSplitsAreTakenWhateverTheyHold) {
    const std::vector<std::tuple<std::string, std::string, std::string>> kinds = {
        {"text.jsonl", R"({"text": "to train"})", R"({"text": "to test"})"},
        {"pairs.jsonl", R"({"prompt": "to ", "completion": "train"})", R"({"prompt": "to ", "completion": "test"})"},
        {"words.txt", "to train", "to test"},
        {"table.csv", "text\nto train", "text\nto test"}};
    for (const auto& [name, train, test] : kinds) {
        const std::string folder = name.substr(0, name.find('.')), ending = name.substr(name.find('.'));
        const std::string one = folder + "/train" + ending, other = folder + "/test" + ending;
        std::filesystem::create_directory(sandbox_ / folder);
        write_bytes(sandbox_ / one, train + "\n");
        write_bytes(sandbox_ / other, test + "\n");
        const Finished finished = dry({"--train-data", sandbox_ / folder});
        EXPECT_EQ(finished.code, 0) << describe(finished);
        EXPECT_THAT(finished.out, testing::AllOf(HasSubstr(one), Not(HasSubstr(other))));
        EXPECT_THAT(finished.err, HasSubstr(other + " (test)"));
        EXPECT_EQ(eval({"--data", sandbox_ / folder}).at("loss"), eval({"--data", sandbox_ / other}).at("loss"));
        EXPECT_NE(eval({"--data", sandbox_ / folder}).at("loss"), eval({"--data", sandbox_ / one}).at("loss"));
    }
}

// What ends otherwise behind a data file is still a configuration file.
TEST_F(DataFiles, LeaveAConfigurationFileBehindThemAlone) {
    write_bytes(sandbox_ / "run.yaml", "seed: 77\n");
    const Finished finished = dry({"--train-data", a_, sandbox_ / "run.yaml"});
    EXPECT_THAT(finished.out, HasSubstr("seed: 77")) << describe(finished);
}

TEST_F(DataFiles, AreRefusedWhereThereAreNone) {
    std::filesystem::create_directory(sandbox_ / "empty");
    write_bytes(sandbox_ / "empty/part.parquet", "PAR1");
    for (const char* folder : {"nothing", "above/data", "aside/rows"})
        std::filesystem::create_directories(sandbox_ / folder);
    write_bytes(sandbox_ / "nothing/notes.md", "no rows");
    write_bytes(sandbox_ / "above/data/train-00000-of-00001.parquet", "PAR1");
    write_bytes(sandbox_ / "aside/rows/a.csv.gz", "");
    const std::vector<std::pair<std::string, std::string>> tried = {
        {sandbox_ / "empty",
         "the folder holds only .parquet files, which are not read. Try: make rows of them: python"},
        {sandbox_ / "empty/*.parquet", "data_files='" + (sandbox_ / "empty/*.parquet'")},
        {sandbox_ / "above", "holds only .parquet files, which are not read, in the folder data. Try: make rows"},
        {sandbox_ / "aside", "holds no rows but in the folder rows. Try: " + (sandbox_ / "aside/rows")},
        {sandbox_ / "nothing", "holds no file of a kind that is read"},
        {sandbox_ / "rows/*.tsv", "matches"},
        {sandbox_ / "absent/*.jsonl", "matches"},
        {sandbox_ / "*/a.jsonl", "last part of a path"}};
    for (const auto& [name, message] : tried) {
        const Finished finished = dry({"--train-data", name});
        EXPECT_EQ(finished.code, kData) << describe(finished);
        EXPECT_THAT(finished.err, testing::AllOf(HasSubstr(name), HasSubstr(message), HasSubstr("Try: ")));
    }
}

TEST_F(DataFiles, OfTheHubAreNamedWithTheCommandThatFetchesThem) {
    Settings settings = sandbox_.training();
    settings["train_data"] = "tatsu-lab/alpaca";
    const Finished finished = run(sandbox_.train(settings));
    EXPECT_EQ(finished.code, kData) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("hf download tatsu-lab/alpaca --repo-type dataset --local-dir alpaca"));
}

TEST_F(DataFiles, ThatHoldNothingAreRefusedWithAWayOut) {
    Settings settings = sandbox_.training();
    settings["train_data"] = a_;
    settings["max_length"] = "4";
    settings["truncation"] = "drop";
    const Finished finished = run(sandbox_.train(settings));
    EXPECT_EQ(finished.code, kData) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("Try: a greater max_length"));
}

}  // namespace
}  // namespace windlass::cli
