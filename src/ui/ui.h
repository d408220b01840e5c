// ui.h: a page on 127.0.0.1 over the command line's verbs and the folders of runs. The process holds no weights and no
// state that matters: runs are processes of their own, and their folders say how they are doing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace windlass {

struct UiSettings {
    std::string root = ".";
    int port = 0;                     // 0: kUsualPort, or the next one that is free
    std::vector<std::string> others;  // folders that may be used too; the first is the Hugging Face cache
    std::string version;
};

inline constexpr int kUsualPort = 7877;

struct UiAddress {
    int port = 0;
    std::string root;  // absolute
    std::string url;   // with the token
};

// Until a signal ends the process. `is_ready` is called once, when the page can be opened. Throws UserError(usage) for
// a root that is no folder and for a port that is taken.
void serve_ui(const UiSettings& settings, const std::function<void(const UiAddress&)>& is_ready);

}  // namespace windlass
