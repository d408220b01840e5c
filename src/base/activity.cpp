#include "base/activity.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "base/status_line.h"

namespace windlass {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);
constexpr double kShownAfter = 0.5;  // seconds: what is shorter would only flicker
constexpr double kToldAfter = 1, kFirstPause = 10, kLongestPause = 600;

std::atomic<int64_t> engine_work{0};
std::atomic<uint64_t> activities{0};

struct Shown {
    std::mutex mutex;
    Activity* innermost = nullptr;
    std::string head;
};

Shown& shown() {
    static Shown instance;
    return instance;
}

// A process that is forked by another thread than the display's finds the lock free.
void keep_lock_over_forks() {
    pthread_atfork([] { shown().mutex.lock(); }, [] { shown().mutex.unlock(); }, [] { shown().mutex.unlock(); });
}

double age_of(const Activity& activity, int64_t now) {
    return static_cast<double>(now - activity.start_ns()) * 1e-9;
}

}  // namespace

void count_engine_work() noexcept {
    engine_work.fetch_add(1, std::memory_order_relaxed);
}

Activity::Activity(std::string what, int64_t total, ActivityTraits traits)
    : what_(std::move(what)),
      total_(total),
      traits_(traits),
      engine_before_(engine_work.load(std::memory_order_relaxed)),
      start_ns_(now_ns()),
      number_(activities.fetch_add(1) + 1) {
    Shown& all = shown();
    const std::lock_guard lock(all.mutex);
    outer_ = all.innermost;
    all.innermost = this;
}

Activity::~Activity() {
    Shown& all = shown();
    const std::lock_guard lock(all.mutex);
    // One that ends before an inner one, on another thread, leaves that one its place.
    Activity** place = &all.innermost;
    while (*place != nullptr && *place != this) place = &(*place)->outer_;
    if (*place == this) *place = outer_;
}

int64_t Activity::count() const noexcept {
    return traits_.counts_engine_work ? engine_work.load(std::memory_order_relaxed) - engine_before_
                                      : done_.load(std::memory_order_relaxed);
}

std::string activity_text(const Activity& activity, double seconds) {
    const int64_t count = activity.count(), total = activity.total();
    if (total > 0 && count > 0)
        return fmt::format("{}: {} %", activity.what(), std::min<int64_t>(99, count * 100 / total));
    if (count > 0) return fmt::format("{}: {}", activity.what(), count);
    return fmt::format("{}: {:.0f} s", activity.what(), seconds);
}

bool ActivityLines::is_due(const Activity& activity, double age, double now) {
    const bool is_new = !activity.has_own_line() && told_ != activity.number();
    if (is_new && age >= kToldAfter) {
        told_ = activity.number();
        last_ = now;
        return true;
    }
    if (age < kFirstPause || (last_ && now - *last_ < pause_)) return false;
    last_ = now;
    pause_ = std::min(2 * pause_, kLongestPause);
    return true;
}

void set_activity_head(std::string text) {
    const std::lock_guard lock(shown().mutex);
    shown().head = std::move(text);
}

ActivityDisplay::ActivityDisplay(const ActivityStyle& style) : style_(style) {
    static std::once_flag once;
    std::call_once(once, keep_lock_over_forks);
    thread_ = std::jthread([this](const std::stop_token& stop) {
        ActivityLines lines;
        std::mutex mutex;
        std::condition_variable_any waiting;
        std::unique_lock lock(mutex);
        while (!waiting.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) look(lines);
    });
}

ActivityDisplay::~ActivityDisplay() {
    thread_.request_stop();
    thread_.join();
    clear_status();
}

void ActivityDisplay::look(ActivityLines& lines) const {
    Shown& all = shown();
    const std::lock_guard lock(all.mutex);
    if (all.innermost == nullptr) return;
    const int64_t now = now_ns();
    const double age = age_of(*all.innermost, now);
    if (!style_.interactive) {
        if (lines.is_due(*all.innermost, age, static_cast<double>(now) * 1e-9))
            log_line(LogLevel::info, activity_text(*all.innermost, age));
        return;
    }
    if (age < kShownAfter) return;
    std::string text = all.head.empty() ? "" : all.head + "  ";
    text += activity_text(*all.innermost, age);
    if (std::ssize(text) >= style_.columns) text.resize(static_cast<size_t>(style_.columns - 1));
    draw_status(text, style_.color);
}

}  // namespace windlass
