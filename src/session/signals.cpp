#include "session/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace windlass {
namespace {

// Shared by the thread that takes signals and the run. Holding the mutex keeps the engine alive while it is touched.
struct Desk {
    std::mutex mutex;
    Engine* engine = nullptr;  // of the run that goes
    int stops_asked = 0, last_stop = 0;
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

void say(std::string_view text) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    static_cast<void>(written);
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

void take_stop(int number) {
    Desk& shared = desk();
    const std::unique_lock lock(shared.mutex);
    if (number == SIGINT && shared.keeps_interrupt && !shared.was_interrupted.exchange(true)) return;
    if (shared.engine == nullptr) return act_by_default(number);
    // Who reads what the run says hangs up with the terminal: the run still has its step to save.
    if (number == SIGHUP) std::signal(SIGPIPE, SIG_IGN);
    shared.last_stop = number;
    if (shared.stops_asked++ == 0)
        say("\nstopping after this step; once more to stop now\n");
    else
        shared.engine->request_stop();
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
    for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&shared.taken, number);
    if (!is_ignored(SIGHUP)) sigaddset(&shared.taken, SIGHUP);
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
    shared.stops_asked = shared.last_stop = 0;
}

SignalScope::~SignalScope() {
    Desk& shared = desk();
    const std::lock_guard lock(shared.mutex);
    shared.engine = nullptr;
    shared.save_asked = false;
}

bool SignalScope::wants_stop() const {
    const std::lock_guard lock(desk().mutex);
    return desk().stops_asked > 0;
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
