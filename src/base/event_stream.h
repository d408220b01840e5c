// event_stream.h: what the program tells another one that follows it: JSON objects, one a line (docs/guide/json.md).
//
// Lines go to a descriptor, where a program asked for them, and to a file of the run, which keeps why a run ended. In a
// program that outlives its readers (base/log.h) a reader that is slow or gone stops nothing: events of single steps
// are dropped while it lags, and counted in the next one that it gets; the others wait in memory until it takes them.
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace windlass {

struct EventKind {
    std::string_view name;
    bool may_be_dropped = false;  // of a step: there are many, and a later one says more
    bool is_kept = true;          // in the run's file, where others do not hold it already
};

class EventStream {
  public:
    EventStream();
    ~EventStream();
    EventStream(const EventStream&) = delete;
    EventStream& operator=(const EventStream&) = delete;

    // From now on lines are written to this descriptor as well.
    void follow(int descriptor);
    // Appends to the file, first what was to be kept until now (the first 64 KiB). Not through a link. Once. Throws
    // MachineError; a line that the file does not take later is lost, as those of the log are.
    void open(const std::string& path);
    // Whether a reader follows: what only it is told need not be made otherwise.
    bool is_followed() const;

    // {"event": kind.name, "time": seconds since 1970, ...body}; `body` is an object, whose own "time" holds, or null.
    void emit(const EventKind& kind, const Json& body);
    // Gives a reader that lags the time to take what waits: five seconds. For the end of a program.
    void finish();

  private:
    struct State;
    const std::unique_ptr<State> state_;
};

}  // namespace windlass
