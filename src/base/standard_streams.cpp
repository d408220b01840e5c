#include "base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace windlass {
namespace {

bool can_take_more(int descriptor, std::chrono::milliseconds most) {
    pollfd one{.fd = descriptor, .events = POLLOUT, .revents = 0};
    return ::poll(&one, 1, static_cast<int>(std::max<int64_t>(0, most.count()))) != 0;
}

}  // namespace

void hold_standard_descriptors() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
        // The lowest free number, which is this one: the lower ones are held already.
        const int held = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (held > STDERR_FILENO) ::close(held);
    }
}

// O_NONBLOCK belongs to the open file description, which the shell and other programs share: a pipe or a terminal is
// opened once more, by its name in /proc, for writes of our own that do not wait. Where that is refused (a terminal of
// another user), small writes follow a poll.
BoundedOutput::BoundedOutput(int descriptor) : descriptor_(descriptor) {
    struct stat raw {};
    if (::fstat(descriptor, &raw) != 0 || S_ISREG(raw.st_mode)) return;
    if (S_ISSOCK(raw.st_mode)) {
        kind_ = Kind::socket;
        return;
    }
    const int own =
        ::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    kind_ = own >= 0 ? Kind::own : Kind::shared;
    if (own >= 0) descriptor_ = own;
}

BoundedOutput::~BoundedOutput() {
    if (kind_ == Kind::own) ::close(descriptor_);
}

std::ptrdiff_t BoundedOutput::put(std::string_view text) const {
    if (kind_ == Kind::socket) return ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (kind_ != Kind::shared) return ::write(descriptor_, text.data(), text.size());
    if (!can_take_more(descriptor_, std::chrono::milliseconds(0))) {
        errno = EAGAIN;
        return -1;
    }
    return ::write(descriptor_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
}

BoundedOutput::Written BoundedOutput::write(std::string_view text, std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + patience;
    Written done;
    while (done.bytes < text.size()) {
        const std::ptrdiff_t count = put(text.substr(done.bytes));
        if (count > 0) {
            done.bytes += static_cast<size_t>(count);
            continue;
        }
        const int error = count == 0 ? EAGAIN : errno;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
        done.error_number = error;
        if (error != EINTR && (error != EAGAIN || left.count() <= 0)) return done;
        if (error == EAGAIN) can_take_more(descriptor_, left);
    }
    done.error_number = 0;
    return done;
}

}  // namespace windlass
