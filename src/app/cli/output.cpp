#include "app/cli/output.h"

#include <unistd.h>

#include <algorithm>

#include "app/cli/words.h"
#include "base/failure_json.h"
#include "base/json.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr EventKind kBegin{.name = "begin"};
constexpr EventKind kNote{.name = "note", .is_kept = false};  // log.txt has them
constexpr EventKind kWarning{.name = "warning"};
constexpr EventKind kDone{.name = "done"};
constexpr EventKind kStopped{.name = "stopped"};
constexpr EventKind kError{.name = "error"};

// Text of files may be anything.
std::string dump(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json with_version(const Json& json) {
    Json whole = {{"schema_version", kSchemaVersion}};
    whole.update(json);
    return whole;
}

}  // namespace

ResultForm result_form_of(std::span<const char* const> words) {
    const auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    if (has("--json=lines")) return ResultForm::lines;
    return has("--json") || has("--json=true") ? ResultForm::json : ResultForm::text;
}

VerbOutput::VerbOutput(ResultForm form, std::string_view verb) : form_(form) {
    if (has_events()) events_.follow(STDOUT_FILENO);
    events_.emit(kBegin, with_version({{"verb", verb}, {"version", WINDLASS_VERSION}, {"pid", ::getpid()}}));
    tap_.emplace([this](LogLevel level, const std::string& line) {
        if (level != LogLevel::error) events_.emit(level == LogLevel::warning ? kWarning : kNote, {{"text", line}});
    });
}

void VerbOutput::tell(const EventKind& kind, const Json& body) {
    if (has_events()) events_.emit(kind, body);
}

void VerbOutput::end(const EventKind& kind, const Json& json, ExitCode code) {
    is_over_ = true;
    Json body = {{"code", static_cast<int>(code)}};
    body.update(json);
    events_.emit(kind, body);
}

void VerbOutput::result(const Json& json, ExitCode code) {
    end(kDone, json, code);
    if (form_ == ResultForm::json) print_result(dump(with_version(json)));
}

void VerbOutput::stopped(const Json& json, ExitCode code) {
    end(kStopped, json, code);
    if (form_ == ResultForm::json) print_result(dump(with_version(json)));
}

void VerbOutput::fail(ExitCode code, const std::string& message) {
    log_line(LogLevel::error, message);
    const Json json = failure_json(code, message);
    try {
        end(kError, json, code);
        if (form_ == ResultForm::json) print_result(dump(with_version({{"error", json}})));
        events_.finish();
    } catch (const MachineError&) {
    }
}

void VerbOutput::finish(ExitCode code) {
    if (!is_over_) end(kDone, Json::object(), code);
    events_.finish();
}

}  // namespace windlass
