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

    // What `windlass runs` prints. Requests that come while it works share what it prints.
    Task<VerbResult> list();
    // Relative to the root: of several with this id (a copied folder) the one that trains, or the first by name.
    // HttpRefusal (404) where no run has it. "./" precedes it: a name may be like "key=value".
    Task<std::string> folder_of(std::string id);
    // The same, as the folders are now. HttpRefusal (409) if several have this id, and none trains.
    Task<std::string> folder_to_change(std::string id);
    // {"status", "settings", "yaml"}
    Task<HttpReply> describe(std::string id);
    // Whole lines of metrics, events or samples, or bytes of the log, from a byte on, with where they begin and end.
    Task<HttpReply> read(std::string id, std::string_view name, std::string from);
    // A file that the run obeys after its step: "stop" or "save".
    Task<HttpReply> ask(std::string id, std::string_view what);

  private:
    struct Place {
        std::string folder;
        bool trains = false;
    };
    std::string checked(const std::string& id, const Place& place) const;

    Verbs& verbs_;
    const Root& root_;
    std::multimap<std::string, Place, std::less<>> places_;  // by id
    bool is_listing_ = false;
    VerbResult listed_;
};

}  // namespace windlass
