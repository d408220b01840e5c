#include "session/signals.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr std::array kStops = {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGXCPU, SIGPWR, SIGALRM};
constexpr double kOneRequestSeconds = 0.3;  // within which two of a kind are one request, delivered twice

// Shared by the thread that takes signals and the scopes.
struct Desk {
    std::mutex mutex;
    RunControl* control = nullptr;
    std::optional<int64_t> first_interrupt, first_terminate;  // when, by the clock
    bool save_asked = false;                                  // before there was a control
    bool is_taking = false;
    bool keeps_interrupt = false;               // of an InterruptScope
    bool drops_late_interrupt = false;          // of a LateInterruptScope
    std::atomic<bool> was_interrupted = false;  // since it began
    sigset_t taken{}, before{};
};

Desk& desk() {
    static Desk* const instance = new Desk;  // never destroyed: the thread outlives main
    return *instance;
}

// As without a handler: unless the program was started with the signal ignored, the process ends here.
void act_by_default(int number) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    raise(number);
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
}

// Whether this is a user's, or a queue's, second request.
bool asks_again(Desk& shared, int number) {
    if (number != SIGINT && number != SIGTERM) return false;
    std::optional<int64_t>& first = number == SIGINT ? shared.first_interrupt : shared.first_terminate;
    if (first) return seconds_since(*first) >= kOneRequestSeconds;
    first = now_ns();
    return false;
}

void forget_requests(Desk& shared) {
    shared.first_interrupt.reset();
    shared.first_terminate.reset();
}

void take_stop(int number) {
    Desk& shared = desk();
    {
        const std::lock_guard lock(shared.mutex);
        if (number == SIGINT && shared.keeps_interrupt && !shared.was_interrupted.exchange(true)) return;
        if (shared.control == nullptr || !shared.control->is_running()) {
            if (number == SIGINT && shared.drops_late_interrupt) return;
            return act_by_default(number);
        }
        if (!shared.control->wants_stop()) forget_requests(shared);  // of the run before
        if (asks_again(shared, number)) return shared.control->stop_now();
        if (!shared.control->stop_after_step(number == SIGINT ? ExitCode::interrupted : ExitCode::terminated)) return;
    }
    // Not under the lock, which scopes need: a reader may keep this line waiting for a moment.
    log_more(number == SIGINT || number == SIGTERM ? "stopping after this step; once more to stop now"
                                                   : "stopping after this step");
}

void take_save() {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    if (shared.control != nullptr)
        shared.control->save();
    else
        shared.save_asked = true;
}

void* take_until_the_end(void*) {
    for (;;) {
        int number = 0;
        if (sigwait(&desk().taken, &number) != 0) continue;
        number == SIGUSR1 ? take_save() : take_stop(number);
    }
    return nullptr;
}

bool is_ignored(int number) {
    struct sigaction action {};
    return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void begin_thread() {
    constexpr size_t kStackBytes = size_t{256} << 10;  // it writes a line at most
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, take_until_the_end, nullptr);
    pthread_attr_destroy(&attributes);
    if (error != 0) throw MachineError("pthread_create", "the thread that takes signals", error);
}

}  // namespace

void take_signals() {
    Desk& shared = desk();
    WINDLASS_CHECK(!shared.is_taking, "signals are taken once");
    shared.is_taking = true;
    std::signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&shared.taken);
    sigaddset(&shared.taken, SIGUSR1);
    for (const int number : kStops) {
        if (number != SIGHUP || !is_ignored(SIGHUP)) sigaddset(&shared.taken, number);
    }
    pthread_sigmask(SIG_BLOCK, &shared.taken, &shared.before);
    begin_thread();
}

void give_back_signals() {
    if (desk().is_taking) pthread_sigmask(SIG_SETMASK, &desk().before, nullptr);
}

SignalScope::SignalScope(RunControl& control) {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    WINDLASS_CHECK(shared.control == nullptr, "one control at a time takes the signals");
    shared.control = &control;
    if (std::exchange(shared.save_asked, false)) control.save();
}

SignalScope::~SignalScope() {
    const std::lock_guard lock(desk().mutex);
    desk().control = nullptr;
}

InterruptScope::InterruptScope() {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    WINDLASS_CHECK(shared.control == nullptr && !shared.keeps_interrupt, "one at a time takes SIGINT");
    shared.keeps_interrupt = true;
    shared.was_interrupted = false;
}

InterruptScope::~InterruptScope() {
    const std::lock_guard lock(desk().mutex);
    desk().keeps_interrupt = false;
}

bool InterruptScope::was_interrupted() const {
    return desk().was_interrupted;
}

LateInterruptScope::LateInterruptScope() {
    const std::lock_guard lock(desk().mutex);
    desk().drops_late_interrupt = true;
}

LateInterruptScope::~LateInterruptScope() {
    const std::lock_guard lock(desk().mutex);
    desk().drops_late_interrupt = false;
}

}  // namespace windlass
