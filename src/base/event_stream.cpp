#include "base/event_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/standard_streams.h"

namespace windlass {
namespace {

constexpr size_t kEarlyBytesMax = size_t{64} << 10;
constexpr size_t kWaitingBytesMax = size_t{1} << 20;  // a reader that lags by more does not come back
constexpr auto kLastPatience = std::chrono::seconds(5);

// A kill cut a line short: the next process ends it.
bool ends_in_mid_line(int descriptor) {
    char last = '\n';
    const off_t size = ::lseek(descriptor, 0, SEEK_END);
    return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

void append_to_file(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(descriptor, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        text.remove_prefix(static_cast<size_t>(count));
    }
}

// Text of files may be anything.
std::string line_of(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

struct EventStream::State {
    std::mutex mutex;
    int file = -1;
    bool was_opened = false;
    std::string early;  // for the file, until it is opened

    int reader = -1;                       // a descriptor; -1: none
    std::optional<BoundedOutput> bounded;  // it, of a program that outlives its readers
    std::string waiting;                   // lines that the reader has not taken, the first maybe in part
    int64_t dropped = 0;                   // steps, since the last that it was told of
    int failed = 0;                        // errno of the write after which it was given up, in other programs

    void keep(const std::string& line) {
        if (file >= 0) append_to_file(file, line);
        if (!was_opened && early.size() + line.size() <= kEarlyBytesMax) early += line;
    }

    // What waits, as far as it is taken in time. Returns why the reader is given up, or nothing.
    std::string pass_on(std::chrono::milliseconds patience) {
        if (reader < 0 || waiting.empty()) return "";
        if (!outlives_readers()) return pass_on_whole();
        if (!bounded) bounded.emplace(reader);
        const BoundedOutput::Written done = bounded->write(waiting, patience);
        waiting.erase(0, done.bytes);
        if (done.error_number == 0) return "";
        if (done.error_number == EAGAIN && waiting.size() <= kWaitingBytesMax) return "";
        return give_up(done.error_number == EAGAIN ? "nothing reads them" : std::strerror(done.error_number));
    }

    // As any program writes: it waits for its reader, and ends with it by SIGPIPE.
    std::string pass_on_whole() {
        while (!waiting.empty()) {
            const ssize_t count = ::write(reader, waiting.data(), waiting.size());
            if (count >= 0) {
                waiting.erase(0, static_cast<size_t>(count));
            } else if (errno == EAGAIN) {  // a program that shares it does not wait
                pollfd one{.fd = reader, .events = POLLOUT, .revents = 0};
                ::poll(&one, 1, -1);
            } else if (errno != EINTR) {
                failed = errno;
                return give_up(std::strerror(errno));
            }
        }
        return "";
    }

    // Returns why the reader is given up, or nothing.
    std::string tell(const EventKind& kind, Json json) {
        const std::lock_guard lock(mutex);
        if (kind.is_kept) keep(line_of(json));
        const std::string why = pass_on(std::chrono::milliseconds(0));
        if (reader < 0) return why;
        if (kind.may_be_dropped && !waiting.empty()) {
            ++dropped;
            return "";
        }
        if (kind.may_be_dropped && dropped > 0) json["dropped"] = std::exchange(dropped, 0);
        waiting += line_of(json);
        return pass_on(std::chrono::milliseconds(0));
    }

    std::string give_up(std::string why) {
        reader = -1;
        waiting.clear();
        return why;
    }
};

EventStream::EventStream() : state_(std::make_unique<State>()) {}

EventStream::~EventStream() {
    if (state_->file >= 0) ::close(state_->file);
}

void EventStream::follow(int descriptor) {
    const std::lock_guard lock(state_->mutex);
    state_->reader = descriptor;
}

void EventStream::open(const std::string& path) {
    constexpr mode_t kNewFileMode = 0666;  // cut by the umask
    // Not through a link: who may write into the run's folder could plant one to any file.
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kNewFileMode);
    if (file < 0) throw file_error("open for appending", path, errno);
    const std::lock_guard lock(state_->mutex);
    WINDLASS_CHECK(!state_->was_opened, "the file of an event stream is opened once");
    state_->file = file;
    state_->was_opened = true;
    append_to_file(file, (ends_in_mid_line(file) ? "\n" : "") + std::exchange(state_->early, ""));
}

bool EventStream::is_followed() const {
    const std::lock_guard lock(state_->mutex);
    return state_->reader >= 0;
}

void EventStream::emit(const EventKind& kind, const Json& body) {
    Json json = {{"event", kind.name}, {"time", wall_seconds()}};
    if (!body.is_null()) json.update(body);
    const std::string why = state_->tell(kind, std::move(json));
    // Not under the lock: the log's lines are events too.
    if (!why.empty() && outlives_readers()) log_warning("stdout takes no events any more: {}", why);
}

void EventStream::finish() {
    std::string why;
    {
        const std::lock_guard lock(state_->mutex);
        why = state_->pass_on(kLastPatience);
        if (state_->failed != 0) throw MachineError("write", "stdout", state_->failed);
        if (!state_->waiting.empty()) why = state_->give_up("nothing reads them");
    }
    if (!why.empty()) log_warning("stdout did not take the last events: {}", why);
}

}  // namespace windlass
