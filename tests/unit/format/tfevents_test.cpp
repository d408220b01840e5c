#include "format/tfevents.h"

#include "tests/tfevents_reader.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using namespace events;

TEST(Events, AreReadBackByAnIndependentReader) {
    EXPECT_EQ(slow_crc32c("123456789"), 0xe3069283u);
    const TempFolder folder;
    std::string path;
    {
        EventWriter events(real_files(), folder.path(), 1700000000.5, 1);
        path = events.path();
        EXPECT_TRUE(path.ends_with("/events.out.tfevents.1700000000.windlass"));
        events.scalar("train/loss", 1, 2.25f, 1700000001.0);
        events.scalar("lr", 1'000'000, 1e-5f, 1700000002.0);
    }
    const std::vector<std::string> payloads = records(read_bytes(path));
    ASSERT_EQ(payloads.size(), 4u);
    auto version = fields(payloads[0]);
    EXPECT_EQ(number<double>(version[1]), 1700000000.5);
    EXPECT_EQ(version[3], "brain.Event:2");
    auto start = fields(payloads[1]);
    EXPECT_EQ(start[2], "1");
    EXPECT_EQ(fields(start[7])[1], "1");
    auto event = fields(payloads[2]);
    EXPECT_EQ(number<double>(event[1]), 1700000001.0);
    EXPECT_EQ(event[2], "1");
    auto value = fields(fields(event[5])[1]);
    EXPECT_EQ(value[1], "train/loss");
    EXPECT_EQ(number<float>(value[2]), 2.25f);
    EXPECT_EQ(fields(payloads[3])[2], "1000000");
}

TEST(Events, AreOnDiskAfterFlush) {
    const TempFolder folder;
    EventWriter events(real_files(), folder.path(), 5, 1);
    EXPECT_EQ(records(read_bytes(events.path())).size(), 2u);
    for (int step = 0; step < 3000; ++step) events.scalar("loss", step, 1.0f, 6);
    EXPECT_GT(records(read_bytes(events.path())).size(), 2u) << "a long buffer flushes by itself";
    events.flush();
    EXPECT_EQ(records(read_bytes(events.path())).size(), 3002u);
}

// A file that a killed run left has steps that the next one writes again.
TEST(Events, OfAResumedRunAreDrawnOnce) {
    const TempFolder folder;
    for (const int64_t first : {1, 4, 3}) {
        EventWriter events(real_files(), folder.path(), 5, first);
        for (int64_t step = first; step < first + 5; ++step)
            events.scalar("loss", step, static_cast<float>(10 * first + step), 6);
    }
    const std::vector<std::pair<int64_t, float>> expected = {{1, 11}, {2, 12}, {3, 33}, {4, 34},
                                                             {5, 35}, {6, 36}, {7, 37}};
    EXPECT_EQ(points_of(real_files(), folder.path(), "loss"), expected);
}

TEST(Events, NeverOverwriteAnEarlierFile) {
    const TempFolder folder;
    const EventWriter first(real_files(), folder.path(), 5, 1), second(real_files(), folder.path(), 5.9, 1);
    EXPECT_EQ(second.path(), first.path() + ".1");
}

}  // namespace
}  // namespace windlass
