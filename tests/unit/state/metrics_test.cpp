#include "state/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/json.h"

namespace windlass {
namespace {

class MetricsTest : public testing::Test {
  protected:
    MetricsTest() : folder_(fmt::format("{}/windlass_metrics_{}", testing::TempDir(), getpid())) {
        files_.remove_tree(folder_);
        files_.make_folders(folder_);
    }
    ~MetricsTest() override { files_.remove_tree(folder_); }
    std::string lines() { return read_text(files_, folder_ + "/metrics.jsonl", 1 << 20); }
    void write(int64_t resumed, std::vector<int64_t> steps) {
        MetricsWriter writer(files_, folder_, {"jsonl"}, resumed, 1.0);
        for (const int64_t step : steps) writer.write({.step = step, .loss = static_cast<double>(step)});
    }

    FileSystem& files_ = real_files();
    std::string folder_;
};

TEST_F(MetricsTest, LinesHoldTheKeysOfTheGrammar) {
    const Json json =
        Json::parse(metrics_line({.step = 3, .loss = 2.5, .tokens = 100, .step_seconds = 0.5, .eval_loss = 2.0}));
    EXPECT_EQ(json["step"], 3);
    EXPECT_EQ(json["loss"], 2.5);
    EXPECT_EQ(json["tokens_per_second"], 200.0);
    EXPECT_EQ(json["eval_loss"], 2.0);
    EXPECT_FALSE(json.contains("skipped"));
    EXPECT_FALSE(json.contains("redone"));
    EXPECT_EQ(Json::parse(metrics_line({.redone = true}))["redone"], true);
    EXPECT_FALSE(json.contains("disk_read_bytes"));
    EXPECT_FALSE(json.contains("rounds"));
    EXPECT_EQ(Json::parse(metrics_line({.rounds = 3}))["rounds"], 3);
}

TEST_F(MetricsTest, NumbersThatAreNotFiniteAreWords) {
    const Json json = Json::parse(metrics_line({.loss = NAN, .grad_norm = INFINITY, .skipped = true}));
    EXPECT_EQ(json["loss"], "NaN");
    EXPECT_EQ(json["grad_norm"], "Infinity");
    EXPECT_EQ(json["skipped"], true);
}

// Lines lie across blocks of the file; one that is too long, and one without an end, are none.
TEST_F(MetricsTest, ALongFileIsReadLineByLine) {
    std::string text;
    for (int64_t step = 1; step <= 5000; ++step) {
        text += metrics_line({.step = step, .loss = static_cast<double>(step), .disk_write_bytes = step}) + "\n";
        if (step % 1000 == 0) text += R"({"step": 7, "x": ")" + std::string(100'000, 'x') + "\"}\n";
    }
    write_text_atomic(files_, folder_ + "/metrics.jsonl", text + R"({"step": 9999, "loss")");
    const std::vector<CurvePoint> curve = read_curves(files_, folder_ + "/metrics.jsonl").train;
    ASSERT_EQ(curve.size(), 5000u);
    for (size_t i = 0; i < curve.size(); ++i) {
        ASSERT_EQ(curve[i].step, static_cast<int64_t>(i) + 1);
        ASSERT_EQ(curve[i].value, static_cast<double>(i + 1));
    }
    EXPECT_EQ(last_step_on_disk(files_, folder_ + "/metrics.jsonl"), 5000);
    write(4321, {});
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.back().step, 4321);
    EXPECT_TRUE(read_text(files_, folder_ + "/metrics.jsonl", 1 << 24).ends_with("}\n"));
}

// Which step is the best depends on them.
TEST_F(MetricsTest, EvaluationsAreReadWholeOrNotAtAll) {
    std::string text;
    for (int64_t step = 1; step <= 6; ++step) {
        StepMetrics line{.step = step, .loss = 1};
        if (step % 2 == 0) line.eval_loss = 0.5 * static_cast<double>(step);
        text += metrics_line(line) + "\n";
    }
    const std::string path = folder_ + "/metrics.jsonl";
    const auto read = [&](const std::string& lines) {
        std::ofstream(path, std::ios::binary) << lines;
        std::vector<double> values;
        for (const CurvePoint& point : read_evaluations(files_, path, "eval_loss", 2, 5)) values.push_back(point.value);
        return values;
    };
    EXPECT_THAT(read(text), testing::ElementsAre(2.0));
    const size_t begin = text.find(R"({"step":3)"), end = text.find(R"({"step":6)");
    for (size_t byte = begin; byte < end; ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = text;
            damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
            try {
                EXPECT_THAT(read(damaged), testing::ElementsAre(2.0)) << damaged.substr(begin, end - begin);
            } catch (const UserError& error) {
                EXPECT_THAT(error.what(), testing::HasSubstr("which step was the best is not known. Try: --resume"));
            }
        }
    }
    EXPECT_THROW(read(text.substr(0, text.find(R"({"step":5)"))), UserError);
}

TEST_F(MetricsTest, AResumedRunMakesUpForTheLineThatAKillTook) {
    write(0, {1, 2});
    MetricsWriter(files_, folder_, {"jsonl"}, 2, 1.0).make_up(2, metrics_line({.step = 2}));
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.size(), 2u);
    MetricsWriter(files_, folder_, {"jsonl"}, 3, 1.0).make_up(3, metrics_line({.step = 3}));
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.size(), 3u);
}

TEST_F(MetricsTest, AnEvaluationThatAKillTookComesIntoTheLastLineOnce) {
    write(0, {1, 2});
    for (const double loss : {1.5, 9.0})
        MetricsWriter(files_, folder_, {"jsonl"}, 2, 1.0).add_evaluation({.step = 2, .eval_loss = loss});
    MetricsWriter(files_, folder_, {"jsonl"}, 2, 1.0).add_evaluation({.step = 1, .eval_loss = 3.0});
    const LossCurves curves = read_curves(files_, folder_ + "/metrics.jsonl");
    EXPECT_EQ(curves.train.size(), 2u);
    ASSERT_EQ(curves.eval.size(), 1u);
    EXPECT_EQ(curves.eval[0].step, 2);
    EXPECT_EQ(curves.eval[0].value, 1.5);
    write(2, {3});
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.size(), 3u);
}

TEST_F(MetricsTest, AResumedRunGoesOnBehindItsStep) {
    write(0, {1, 2, 3, 4});
    write(2, {3, 4, 5});
    std::vector<int64_t> steps;
    for (const CurvePoint& point : read_curves(files_, folder_ + "/metrics.jsonl").train) steps.push_back(point.step);
    EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(MetricsTest, ALineThatWasCutOffGoes) {
    write(0, {1, 2});
    const std::string whole = lines();
    const auto file = files_.open(folder_ + "/metrics.jsonl", {OpenMode::update});
    file->truncate(std::ssize(whole) - 5);
    write(9, {3});
    EXPECT_THAT(lines(), testing::HasSubstr("\"step\":3"));
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.size(), 2u);
}

TEST_F(MetricsTest, ANewRunStartsAnEmptyFile) {
    write(0, {1, 2});
    write(0, {1});
    EXPECT_EQ(read_curves(files_, folder_ + "/metrics.jsonl").train.size(), 1u);
}

TEST_F(MetricsTest, WritesWhatIsAskedFor) {
    { MetricsWriter none(files_, folder_, {"none"}, 0, 1.0); }
    EXPECT_TRUE(files_.list(folder_).empty());
    { MetricsWriter events(files_, folder_, {"tensorboard"}, 0, 1.0); }
    EXPECT_EQ(files_.list(folder_).size(), 1u);
}

}  // namespace
}  // namespace windlass
