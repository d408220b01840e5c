// activity.h: what the program does for longer than a moment, told to a user who waits: on a terminal in one line that
// is redrawn below the log, elsewhere by a line of the log now and then.
//
// An Activity is what its scope does, the innermost is shown, and counting costs an atomic addition. Only the command
// line shows them (ActivityDisplay): without a display nothing is printed.
// Threads: Activities are made and ended in the order of scopes, on any thread; counts come from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace windlass {

// A unit of an engine's work is done: a task of a schedule, or a chunk that was loaded or saved. One counter for the
// process: what is shown is the difference within an Activity.
void count_engine_work() noexcept;

struct ActivityTraits {
    bool counts_engine_work = false;  // else what done() says
    bool has_own_line = false;        // the log has one, or will have: it is told only where it takes long
};

class Activity {
  public:
    // total: of the units counted; 0: not known, then the count is shown, or the time alone.
    explicit Activity(std::string what, int64_t total = 0, ActivityTraits traits = {});
    ~Activity();
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

    void done(int64_t count = 1) noexcept { done_.fetch_add(count, std::memory_order_relaxed); }
    void done_to(int64_t count) noexcept { done_.store(count, std::memory_order_relaxed); }

    const std::string& what() const { return what_; }
    int64_t total() const { return total_; }
    int64_t count() const noexcept;
    bool has_own_line() const { return traits_.has_own_line; }
    int64_t start_ns() const { return start_ns_; }
    uint64_t number() const { return number_; }  // of all that the process had

  private:
    const std::string what_;
    const int64_t total_;
    const ActivityTraits traits_;
    const int64_t engine_before_, start_ns_;
    const uint64_t number_;
    std::atomic<int64_t> done_{0};
    Activity* outer_;
};

// "reading weights: 34 %", "tokenising rows.jsonl: 1200", "saving checkpoint-6: 12 s".
std::string activity_text(const Activity& activity, double seconds);

// Which lines a log has of long work: a phase once, when it has taken a second; then anything that takes long, ever
// more seldom, up to each ten minutes.
class ActivityLines {
  public:
    // The innermost activity at `now` seconds, since when it has run for `age`. Whether a line is due.
    bool is_due(const Activity& activity, double age, double now);

  private:
    uint64_t told_ = 0;  // the number of the phase that was told
    std::optional<double> last_;
    double pause_ = 10;
};

// What a terminal shows before the innermost activity, such as a bar; empty: nothing.
void set_activity_head(std::string text);

struct ActivityStyle {
    bool interactive = false;  // a line is redrawn; else lines of the log are written
    bool color = false;
    int columns = 80;
};

// Shows them while it lives: one at a time. Its thread looks some times a second.
class ActivityDisplay {
  public:
    explicit ActivityDisplay(const ActivityStyle& style);
    ~ActivityDisplay();
    ActivityDisplay(const ActivityDisplay&) = delete;
    ActivityDisplay& operator=(const ActivityDisplay&) = delete;

  private:
    void look(ActivityLines& lines) const;

    ActivityStyle style_;
    std::jthread thread_;
};

}  // namespace windlass
