// Clients that send without end, or hold on without sending, cost the server little memory and no answer.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/page/ui.h"

namespace windlass::page {
namespace {

constexpr int64_t kMemoryBytes = 8 << 20;    // that it may grow by
constexpr int64_t kOfferedBytes = 64 << 20;  // of each flood that is not closed before
constexpr size_t kPieceBytes = 64 << 10;
constexpr int kEach = 2, kRoundsOfAnAnswer = 50;
constexpr int kHeldConnections = 200;
constexpr size_t kSocketsMax = 64 + 2;  // connections, and the one that listens and the one that was accepted last
constexpr double kCloseSeconds = 30;    // several times what the server gives a request, on a busy machine

struct Flood {
    const char* name;
    std::string begin, piece;
    Connection connection;
};

std::vector<Flood> floods(const Ui& ui) {
    const std::string host = fmt::format("Host: 127.0.0.1:{}\r\n", ui.port());
    const std::string token = fmt::format("Authorization: Bearer {}\r\n", ui.token());
    const std::string get = "GET / HTTP/1.1\r\n" + host;
    const std::string post = "POST /api/plan HTTP/1.1\r\n" + host + "Content-Type: application/json\r\n";
    const std::string chunked = "Transfer-Encoding: chunked\r\n\r\n", huge = "Content-Length: 100000000000\r\n\r\n";
    std::string lines, letters(kPieceBytes, 'a');
    while (lines.size() < kPieceBytes) lines += "X-Line: aaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    const std::string chunk = fmt::format("{:x}\r\n{}\r\n", letters.size(), letters);
    std::vector<Flood> all;
    const auto add = [&](const char* name, const std::string& begin, const std::string& piece) {
        all.push_back({name, begin, piece, Connection(ui.port())});
    };
    add("endless lines of headers", get, lines);
    add("a header without an end", get + "X-Long: ", letters);
    add("a first line without an end", "", letters);
    add("endless chunks with the token", post + token + chunked, chunk);
    add("endless chunks without it", post + chunked, chunk);
    add("a body of 100 GB with the token", post + token + huge, letters);
    add("a body of 100 GB without it", post + huge, letters);
    return all;
}

void expect_it_answers(const Ui& ui) {
    EXPECT_EQ(ui.get("/api/about").status, 200);
}

TEST(ServerFloods, CostLittleMemoryAndNoAnswer) {
    const cli::Sandbox sandbox;
    Ui ui(sandbox);
    expect_it_answers(ui);
    EXPECT_EQ(ui.get("/chart.js").status, 200);
    const int64_t before = memory_of(ui.process().id(), "VmHWM");
    ASSERT_GT(before, 0);
    std::vector<Flood> open;
    for (int i = 0; i < kEach; ++i)
        for (Flood& flood : floods(ui)) {
            ASSERT_TRUE(flood.connection.send(flood.begin)) << flood.name;
            open.push_back(std::move(flood));
        }
    const double end = cli::clock_seconds() + kCloseSeconds;
    for (int round = 0; !open.empty() && cli::clock_seconds() < end; ++round) {
        std::erase_if(open, [](Flood& flood) { return !flood.connection.offer(flood.piece); });
        if (round % kRoundsOfAnAnswer == 0) expect_it_answers(ui);
    }
    for (const Flood& flood : open) ADD_FAILURE() << flood.name << ": the server still takes it";
    // The highest that it ever was, so also while the floods came.
    EXPECT_LT(memory_of(ui.process().id(), "VmHWM") - before, kMemoryBytes);
    expect_it_answers(ui);
}

TEST(ServerConnections, HeldOpenLeaveRoomForOthers) {
    const cli::Sandbox sandbox;
    Ui ui(sandbox);
    std::vector<Connection> held;
    for (int i = 0; i < kHeldConnections; ++i) {
        held.emplace_back(ui.port());
        ASSERT_TRUE(held.back().is_open()) << i;
        if (i % 2 != 0) held.back().send("GET / HTTP/1.1\r\nHost: ");
        if (i % 50 == 0) expect_it_answers(ui);
    }
    expect_it_answers(ui);
    EXPECT_LE(sockets_of(ui.process().id()).size(), kSocketsMax);
    EXPECT_TRUE(held.front().closes_within(kCloseSeconds)) << "the oldest makes room";
}

TEST(ServerConnections, ThatSendSlowlyAreClosed) {
    const cli::Sandbox sandbox;
    Ui ui(sandbox);
    Connection slow(ui.port()), silent(ui.port());
    const std::string text = ui.request("GET", "/api/about").bytes();
    bool is_closed = false;
    size_t sent = 0;
    for (; !is_closed && sent < kCloseSeconds; ++sent) {
        is_closed = !slow.send(text.substr(sent, 1)) || slow.closes_within(1);
        if (!is_closed && sent == 2) expect_it_answers(ui);
    }
    EXPECT_TRUE(is_closed) << "after " << sent << " bytes, one a second";
    EXPECT_GT(sent, 2u);
    EXPECT_TRUE(silent.closes_within(kCloseSeconds));
}

}  // namespace
}  // namespace windlass::page
