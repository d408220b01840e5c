// runs.h: the runs beneath the root, by their ids: no path of a run travels in a request.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ui/verbs.h"

namespace windlass {

class Runs {
  public:
    Runs(Verbs& verbs, const Root& root) : verbs_(verbs), root_(root) {}

    // What `windlass runs` prints.
    Task<VerbResult> list();
    // Relative to the root. HttpRefusal (404) where no run has this id.
    Task<std::string> folder_of(std::string id);
    // {"status", "settings", "yaml"}
    Task<HttpReply> describe(std::string id);
    // Whole lines of metrics, events or samples, or bytes of the log, from a byte on, with where they begin and end.
    Task<HttpReply> read(std::string id, std::string_view name, std::string from);
    // A file that the run obeys after its step: "stop" or "save".
    Task<HttpReply> ask(std::string id, std::string_view what);

  private:
    Verbs& verbs_;
    const Root& root_;
    std::map<std::string, std::string, std::less<>> folders_;
};

}  // namespace windlass
