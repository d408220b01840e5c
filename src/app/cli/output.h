// output.h: what a verb gives on stdout: text for people; one JSON object (--json); or events, one a line, of which the
// last says how it ended (--json=lines). Fields: docs/guide/json.md.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/event_stream.h"
#include "base/json_fwd.h"
#include "base/log_tap.h"

namespace windlass {

inline constexpr int kSchemaVersion = 1;  // of every JSON output

enum class ResultForm : uint8_t { text, json, lines };
// What these words ask for; they need not be a command that can be read.
ResultForm result_form_of(std::span<const char* const> words);

class VerbOutput {
  public:
    // The event of the beginning is told, and from here on the log's lines are.
    VerbOutput(ResultForm form, std::string_view verb);

    bool is_text() const { return form_ == ResultForm::text; }
    bool has_events() const { return form_ == ResultForm::lines; }
    // A run's, which its folder keeps too.
    EventStream& events() { return events_; }
    // Nothing where no events are asked for.
    void tell(const EventKind& kind, const Json& body);

    // The result of a verb, as an object, in a form that is not text: with schema_version, or as the last event.
    // `code`: how the program will end. Throws MachineError where stdout does not take it.
    void result(const Json& json, ExitCode code = ExitCode::ok);
    // The same of a run that was stopped and can go on.
    void stopped(const Json& json, ExitCode code);
    // An error, whose message is on stderr; a stdout that takes nothing is no second one.
    void fail(ExitCode code, const std::string& message);
    // Every event has been taken, and the last one says how it ended. Throws MachineError where stdout does not take
    // it.
    void finish(ExitCode code);

  private:
    void end(const EventKind& kind, const Json& json, ExitCode code);

    const ResultForm form_;
    bool is_over_ = false;
    EventStream events_;
    std::optional<LogTap> tap_;
};

}  // namespace windlass
