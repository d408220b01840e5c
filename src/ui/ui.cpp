#include "ui/ui.h"

#include <cerrno>
#include <csignal>

#include "ui/api.h"
#include "ui/guard.h"
#include "ui/http_server.h"
#include "ui/root.h"

namespace windlass {
namespace {

constexpr int kPortsTried = 20;

std::unique_ptr<HttpServer> listen_on(asio::io_context& context, int wanted, int& port) {
    const int last = wanted != 0 ? wanted : kUsualPort + kPortsTried - 1;
    for (port = wanted != 0 ? wanted : kUsualPort;; ++port) {
        try {
            return std::make_unique<HttpServer>(context, static_cast<uint16_t>(port));
        } catch (const MachineError& error) {
            if (error.error_number() == EACCES)
                throw UserError(ExitCode::usage, "--port", "{} is for the system", port).hint("--port 7877");
            if (error.error_number() != EADDRINUSE) throw;
            if (port < last) continue;
            if (wanted != 0) throw UserError(ExitCode::usage, "--port", "{} is taken", port).hint("--port 0");
            throw UserError(ExitCode::usage, "--port", "{} to {} are taken", kUsualPort, last).hint("--port 8000");
        }
    }
}

}  // namespace

void serve_ui(const UiSettings& settings, const std::function<void(const UiAddress&)>& is_ready) {
    std::signal(SIGPIPE, SIG_IGN);  // a child that has ended is an answer, not the end of this process
    const Root root(settings.root, settings.others);
    asio::io_context context(1);
    int port = 0;
    const std::unique_ptr<HttpServer> server = listen_on(context, settings.port, port);
    const std::string token = make_token();
    Api api(context, root, Guard(static_cast<uint16_t>(port), token), settings);
    server->serve(api);
    is_ready({port, root.folder(), fmt::format("http://127.0.0.1:{}/#{}", port, token)});
    context.run();
}

}  // namespace windlass
