#include "base/event_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "base/log.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr EventKind kStep{.name = "step", .may_be_dropped = true, .is_kept = false};
constexpr EventKind kSaved{.name = "saved"};

std::vector<Json> lines_of(std::istream& text) {
    std::vector<Json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
}

std::vector<Json> lines_in(const std::string& path) {
    std::ifstream file(path);
    return lines_of(file);
}

TEST(EventStream, AFileHasWhatIsKeptFromTheBeginning) {
    const TempFolder folder;
    EventStream events;
    EXPECT_FALSE(events.is_followed());
    events.emit(kSaved, {{"step", 1}});
    events.open(folder / "events.jsonl");
    events.emit(kStep, {{"step", 2}});
    events.emit(kSaved, {{"step", 3}, {"time", 5}});
    const std::vector<Json> lines = lines_in(folder / "events.jsonl");
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0]["event"], "saved");
    EXPECT_EQ(lines[0]["step"], 1);
    EXPECT_GT(lines[0]["time"], 1e9);
    EXPECT_EQ(lines[1]["time"], 5) << "the body's own";
}

TEST(EventStream, AFileContinuesAfterALineThatAKillCut) {
    const TempFolder folder;
    std::ofstream(folder / "events.jsonl") << "{\"event\":\"done\"}\n{\"event\":\"sa";
    EventStream events;
    events.emit(kSaved, {});
    events.open(folder / "events.jsonl");
    std::ifstream file(folder / "events.jsonl");
    std::string first, cut, added;
    std::getline(file, first), std::getline(file, cut), std::getline(file, added);
    EXPECT_EQ(cut, "{\"event\":\"sa");
    EXPECT_EQ(Json::parse(added)["event"], "saved");
}

TEST(EventStream, AFileIsNotWrittenThroughALink) {
    const TempFolder folder;
    std::ofstream(folder / "private") << "kept";
    ASSERT_EQ(::symlink((folder / "private").c_str(), (folder / "events.jsonl").c_str()), 0);
    EventStream events;
    EXPECT_THROW(events.open(folder / "events.jsonl"), Error);
    std::ifstream file(folder / "private");
    std::string text;
    std::getline(file, text);
    EXPECT_EQ(text, "kept");
}

// In a process of its own: that it outlives its readers cannot be taken back.
class FollowedStream : public testing::Test {
  protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        ASSERT_EQ(::pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0);
        ASSERT_GT(::fcntl(ends_[0], F_SETPIPE_SZ, 4096), 0);
    }
    void TearDown() override {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }
    std::string read() const {
        std::string text(1 << 16, '\0');
        const ssize_t count = ::read(ends_[0], text.data(), text.size());
        return text.substr(0, count > 0 ? static_cast<size_t>(count) : 0);
    }
    int ends_[2] = {-1, -1};
};

// 0 where everything but steps arrives in order, and steps that do not are counted.
int lag_and_catch_up(EventStream& events, const std::function<std::string()>& read) {
    constexpr int64_t kSteps = 1000;
    for (int64_t step = 1; step <= kSteps; ++step) {
        events.emit(kStep, {{"step", step}});
        if (step % 100 == 0) events.emit(kSaved, {{"step", step}});
    }
    std::string text = read();
    for (int i = 0; i < 100; ++i) {  // more than waits
        events.emit(kStep, {{"step", kSteps + 1}});
        text += read();
    }
    int64_t told = 0, dropped = 0, saved = 0;
    std::istringstream stream(text);
    for (const Json& line : lines_of(stream)) {
        told += line["event"] == "step" && line["step"] <= kSteps ? 1 : 0;
        dropped += line.value("dropped", int64_t{0});
        if (line["event"] == "saved" && line["step"] != ++saved * 100) return 1;
    }
    if (saved != kSteps / 100) return 2;
    return dropped > 0 && told + dropped >= kSteps ? 0 : 3;
}

TEST_F(FollowedStream, StepsAreDroppedAndCountedWhileAReaderLags) {
    EXPECT_EXIT(
        {
            outlive_readers();
            EventStream events;
            events.follow(ends_[1]);
            std::_Exit(lag_and_catch_up(events, [this] { return read(); }));
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(FollowedStream, AReaderThatHasGoneEndsNothing) {
    EXPECT_EXIT(
        {
            outlive_readers();
            EventStream events;
            events.follow(ends_[1]);
            ::close(ends_[0]);
            events.emit(kSaved, {});
            events.emit(kSaved, {});
            events.finish();
            std::_Exit(events.is_followed() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "^warning: stdout takes no events any more: Broken pipe\n$");
}

// As in other programs: it waits for its reader, who gets everything.
TEST_F(FollowedStream, OtherProgramsWaitForTheirReader) {
    EventStream events;
    events.follow(ends_[1]);
    std::string text;
    std::jthread reader([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) text += read();
        text += read();
    });
    for (int64_t step = 1; step <= 1000; ++step) events.emit(kStep, {{"step", step}});
    events.finish();
    reader.request_stop();
    reader.join();
    std::istringstream stream(text);
    EXPECT_EQ(lines_of(stream).size(), 1000u);
}

}  // namespace
}  // namespace windlass
