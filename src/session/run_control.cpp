#include "session/run_control.h"

#include <utility>

namespace windlass {

bool RunControl::stop_after_step(ExitCode code) {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) return false;
    code_ = code;
    return !std::exchange(wants_stop_, true);
}

void RunControl::stop_now() {
    const std::lock_guard lock(mutex_);
    if (engine_ != nullptr) engine_->request_stop();
}

void RunControl::save() {
    const std::lock_guard lock(mutex_);
    wants_save_ = true;
}

bool RunControl::is_running() const {
    const std::lock_guard lock(mutex_);
    return engine_ != nullptr;
}

bool RunControl::wants_stop() const {
    const std::lock_guard lock(mutex_);
    return wants_stop_;
}

bool RunControl::take_save_request() {
    const std::lock_guard lock(mutex_);
    return std::exchange(wants_save_, false);
}

ExitCode RunControl::exit_code() const {
    const std::lock_guard lock(mutex_);
    return code_;
}

ControlledRun::ControlledRun(RunControl& control, Engine& engine) : control_(control) {
    const std::lock_guard lock(control_.mutex_);
    WINDLASS_CHECK(control_.engine_ == nullptr, "a control has one run at a time");
    control_.engine_ = &engine;
    control_.wants_stop_ = false;
}

ControlledRun::~ControlledRun() {
    const std::lock_guard lock(control_.mutex_);
    control_.engine_ = nullptr;
    control_.wants_save_ = false;
}

}  // namespace windlass
