#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(1);

struct Pair {
    int reader = -1, writer = -1;
    explicit Pair(bool of_sockets) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(of_sockets ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : ::pipe(ends), 0);
        reader = ends[0], writer = ends[1];
    }
    ~Pair() {
        close_reader();
        ::close(writer);
    }
    void close_reader() {
        if (reader >= 0) ::close(reader);
        reader = -1;
    }
    std::string read(size_t bytes) const {
        std::string text(bytes, '\0');
        const ssize_t count = ::read(reader, text.data(), bytes);
        return text.substr(0, count > 0 ? static_cast<size_t>(count) : 0);
    }
};

class BoundedOutputTo : public testing::TestWithParam<bool> {
  protected:
    BoundedOutputTo() { std::signal(SIGPIPE, SIG_IGN); }
    ~BoundedOutputTo() override { std::signal(SIGPIPE, SIG_DFL); }
};

TEST_P(BoundedOutputTo, AReaderWritesAll) {
    const Pair pair(GetParam());
    BoundedOutput output(pair.writer);
    const BoundedOutput::Written done = output.write("a line\n", kMoment);
    EXPECT_EQ(done.bytes, 7);
    EXPECT_EQ(done.error_number, 0);
    EXPECT_EQ(pair.read(100), "a line\n");
}

TEST_P(BoundedOutputTo, AFullStreamReportsWhatItTookAndKeepsItsFlags) {
    const Pair pair(GetParam());
    BoundedOutput output(pair.writer);
    const std::string much(1 << 20, '-');
    const BoundedOutput::Written first = output.write(much, kMoment), second = output.write("more", kMoment);
    EXPECT_GT(first.bytes, 0);
    EXPECT_LT(first.bytes, much.size());
    EXPECT_EQ(first.error_number, EAGAIN);
    EXPECT_EQ(second.bytes, 0);
    EXPECT_EQ(second.error_number, EAGAIN);
    EXPECT_EQ(::fcntl(pair.writer, F_GETFL) & O_NONBLOCK, 0) << "the shell's writes would fail";
    for (size_t left = first.bytes; left > 0;) left -= pair.read(left).size();
    EXPECT_EQ(output.write("more", kMoment).error_number, 0);
}

TEST_P(BoundedOutputTo, NoReaderReportsIt) {
    Pair pair(GetParam());
    BoundedOutput output(pair.writer);
    pair.close_reader();
    EXPECT_EQ(output.write("a line\n", kMoment).error_number, EPIPE);
}

INSTANTIATE_TEST_SUITE_P(Streams, BoundedOutputTo, testing::Bool(),
                         [](const auto& info) { return info.param ? "Sockets" : "Pipes"; });

TEST(BoundedOutput, AppendsToAFile) {
    const TempFolder folder;
    const std::string path = folder / "log";
    std::ofstream(path) << "before\n";
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND);
    EXPECT_EQ(BoundedOutput(file).write("after\n", kMoment).error_number, 0);
    ::close(file);
    std::ifstream text(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "before\nafter\n");
}

TEST(BoundedOutput, ReportsWhatCannotBeWritten) {
    const int full = ::open("/dev/full", O_WRONLY);
    EXPECT_EQ(BoundedOutput(full).write("a line\n", kMoment).error_number, ENOSPC);
    ::close(full);
    EXPECT_EQ(BoundedOutput(full).write("a line\n", kMoment).error_number, EBADF);
}

}  // namespace
}  // namespace windlass
