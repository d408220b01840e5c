#include "train/signals.h"

#include <unistd.h>

#include <atomic>

#include "base/error.h"

namespace windlass {
namespace {

std::atomic<Engine*> running_engine{nullptr};
std::atomic<int> stops_asked{0};
std::atomic<int> last_stop{0};
std::atomic<bool> save_asked{false};

void say(std::string_view text) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    static_cast<void>(written);
}

extern "C" void windlass_on_stop(int number) {
    last_stop.store(number);
    if (stops_asked.fetch_add(1) == 0) {
        say("\nstopping after this step; once more to stop now\n");
        return;
    }
    if (Engine* engine = running_engine.load(); engine != nullptr) engine->request_stop();
}

extern "C" void windlass_on_save(int) {
    save_asked.store(true);
}

void install(int number, void (*handler)(int), struct sigaction* old) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, old);
}

}  // namespace

SignalScope::SignalScope(Engine& engine) {
    WINDLASS_CHECK(running_engine.load() == nullptr, "one run at a time takes the signals");
    stops_asked.store(0);
    save_asked.store(false);
    running_engine.store(&engine);
    install(SIGINT, windlass_on_stop, &old_int_);
    install(SIGTERM, windlass_on_stop, &old_term_);
    install(SIGUSR1, windlass_on_save, &old_usr1_);
}

SignalScope::~SignalScope() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
    sigaction(SIGUSR1, &old_usr1_, nullptr);
    running_engine.store(nullptr);
}

bool SignalScope::wants_stop() const {
    return stops_asked.load() > 0;
}
bool SignalScope::take_save_request() {
    return save_asked.exchange(false);
}
ExitCode SignalScope::exit_code() const {
    return last_stop.load() == SIGTERM ? ExitCode::terminated : ExitCode::interrupted;
}

}  // namespace windlass
