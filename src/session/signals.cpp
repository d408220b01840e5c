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

// Shared by the thread that takes signals and the run. Holding the mutex keeps the engine alive while it is touched.
struct Desk {
    std::mutex mutex;
    Engine* engine = nullptr;                                 // of the run that goes
    int last_stop = 0;                                        // 0: nothing asked for the end
    std::optional<int64_t> first_interrupt, first_terminate;  // when, by the clock
    bool save_asked = false;
    bool is_taking = false;
    bool keeps_interrupt = false;               // of an InterruptScope
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

void take_stop(int number) {
    Desk& shared = desk();
    {
        const std::unique_lock lock(shared.mutex);
        if (number == SIGINT && shared.keeps_interrupt && !shared.was_interrupted.exchange(true)) return;
        if (shared.engine == nullptr) return act_by_default(number);
        if (asks_again(shared, number)) return shared.engine->request_stop();
        if (std::exchange(shared.last_stop, number) != 0) return;
    }
    // Not under the lock, which the run needs: a reader may keep this line waiting for a moment.
    log_more(number == SIGINT || number == SIGTERM ? "stopping after this step; once more to stop now"
                                                   : "stopping after this step");
}

void* take_until_the_end(void*) {
    for (;;) {
        int number = 0;
        if (sigwait(&desk().taken, &number) != 0) continue;
        if (number != SIGUSR1) {
            take_stop(number);
            continue;
        }
        const std::lock_guard lock(desk().mutex);
        desk().save_asked = true;
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

SignalScope::SignalScope(Engine& engine) {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    WINDLASS_CHECK(shared.engine == nullptr, "one run at a time takes the signals");
    shared.engine = &engine;
    shared.last_stop = 0;
    shared.first_interrupt.reset();
    shared.first_terminate.reset();
}

SignalScope::~SignalScope() {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    shared.engine = nullptr;
    shared.save_asked = false;
}

bool SignalScope::wants_stop() const {
    const std::lock_guard lock(desk().mutex);
    return desk().last_stop != 0;
}

bool SignalScope::take_save_request() {
    const std::lock_guard lock(desk().mutex);
    return std::exchange(desk().save_asked, false);
}

ExitCode SignalScope::exit_code() const {
    const std::lock_guard lock(desk().mutex);
    return desk().last_stop == SIGINT ? ExitCode::interrupted : ExitCode::terminated;
}

InterruptScope::InterruptScope() {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    WINDLASS_CHECK(shared.engine == nullptr && !shared.keeps_interrupt, "one at a time takes SIGINT");
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

}  // namespace windlass
