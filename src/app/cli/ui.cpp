// ui.cpp: the page in a browser.
#include "ui/ui.h"

#include <cstdlib>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "config/model_place.h"

namespace windlass {
namespace {

constexpr EventKind kListening{.name = "listening"};

// A browser runs where the user sits, which is another machine.
bool is_over_ssh() {
    return std::getenv("SSH_CONNECTION") != nullptr;
}

void tell_address(const UiAddress& address, VerbOutput& out) {
    if (!out.has_events()) print_result(address.url + "\n");
    out.tell(kListening, {{"address", address.url}, {"port", address.port}, {"root", address.root}});
    log_info("the page uses {}; open the address in a browser of this machine, and end with Ctrl-C: runs continue",
             address.root);
    if (is_over_ssh())
        log_info("over ssh: type on your own machine, then open the address there: ssh -N -L {0}:127.0.0.1:{0} HOST",
                 address.port);
}

}  // namespace

ExitCode run_ui(const UiArgs& args, VerbOutput& out) {
    UiSettings settings{
        .root = args.root, .port = args.port, .others = {hub_cache_folder()}, .version = WINDLASS_VERSION};
    settings.others.insert(settings.others.end(), args.others.begin(), args.others.end());
    serve_ui(settings, [&](const UiAddress& address) { tell_address(address, out); });
    return ExitCode::ok;
}

}  // namespace windlass
