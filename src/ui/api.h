// api.h: the routes of the page (docs/dev/page.md).
#pragma once

#include <map>
#include <span>

#include "ui/chats.h"
#include "ui/completions.h"
#include "ui/guard.h"
#include "ui/runs.h"
#include "ui/ui.h"

namespace windlass {

class Api : public HttpHandler {
  public:
    Api(asio::io_context& context, const Root& root, Guard guard, UiSettings settings);

    bool check(const HttpHead& head) override;
    Task<> serve(HttpExchange& exchange) override;

  private:
    using Parts = std::vector<std::string>;  // of the path, where the route has a star
    struct Route {
        std::string_view method, pattern;
        Task<> (Api::*serve)(HttpExchange& exchange, Parts parts);
    };
    static std::span<const Route> routes();

    Task<> show_file(HttpExchange& exchange);
    Task<> add_settings(HttpExchange& exchange, Words& words);
    Task<> about(HttpExchange& exchange, Parts parts);
    Task<> places(HttpExchange& exchange, Parts parts);
    Task<> schema(HttpExchange& exchange, Parts parts);
    Task<> list_runs(HttpExchange& exchange, Parts parts);
    Task<> describe_run(HttpExchange& exchange, Parts parts);
    Task<> read_run(HttpExchange& exchange, Parts parts);
    Task<> start_run(HttpExchange& exchange, Parts parts);
    Task<> resume_run(HttpExchange& exchange, Parts parts);
    Task<> stop_run(HttpExchange& exchange, Parts parts);
    Task<> save_run(HttpExchange& exchange, Parts parts);
    Task<> export_run(HttpExchange& exchange, Parts parts);
    Task<> plan(HttpExchange& exchange, Parts parts);
    Task<> data(HttpExchange& exchange, Parts parts);
    Task<> inspect(HttpExchange& exchange, Parts parts);
    Task<> begin_chat(HttpExchange& exchange, Parts parts);
    Task<> say(HttpExchange& exchange, Parts parts);
    Task<> interrupt_chat(HttpExchange& exchange, Parts parts);
    Task<> end_chat(HttpExchange& exchange, Parts parts);
    Task<> list_models(HttpExchange& exchange, Parts parts);
    Task<> complete_chat(HttpExchange& exchange, Parts parts);
    std::string hub_cache() const;

    const UiSettings settings_;
    const Root& root_;
    const Guard guard_;
    Verbs verbs_;
    Runs runs_;
    Chats chats_;
    Completions completions_;
    std::map<std::string, std::shared_ptr<ChildProcess>> exports_;  // by target, while it is written
};

}  // namespace windlass
