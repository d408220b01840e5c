// http.h: requests and answers, free of the library that reads and writes them (http_server.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ui/async.h"

namespace windlass {

// What comes before a body. Header fields that are absent are empty.
struct HttpHead {
    std::string method;
    std::string path;                          // "/api/runs", as sent: no route has an escape in it
    std::map<std::string, std::string> query;  // of "?from=12"
    std::string host, origin, fetch_site, fetch_mode, content_type, authorization;

    bool is_get() const { return std::string_view("GET") == method; }
    bool is_post() const { return std::string_view("POST") == method; }
};

struct HttpReply {
    int status = 200;
    std::string type = "application/json";
    std::string body = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
};

// A request that is refused with this status; its body is the error as JSON (base/failure_json.h).
class HttpRefusal : public UserError {
  public:
    template <typename... Args>
    HttpRefusal(int status, std::string_view where, fmt::format_string<Args...> format, Args&&... args)
        : UserError(ExitCode::usage, where, format, std::forward<Args>(args)...), status_(status) {}
    int status() const { return status_; }

  private:
    int status_;
};

// The client went away before its answer was written.
class HttpGone : public std::exception {
  public:
    const char* what() const noexcept override { return "the client is gone"; }
};

// A request, and the way to answer it: whole, or in parts as they are made. Sending throws HttpGone.
class HttpExchange {
  public:
    virtual ~HttpExchange() = default;
    virtual const HttpHead& head() const = 0;
    virtual const std::string& body() const = 0;

    virtual Task<> send(HttpReply reply) = 0;
    virtual Task<> begin_parts(std::string_view type) = 0;
    virtual Task<> send_part(std::string_view part) = 0;
    // Called once if the client closes its end while parts are made; until then it may be quiet for long.
    virtual void when_gone(std::function<void()> call) = 0;
};

class HttpHandler {
  public:
    virtual ~HttpHandler() = default;
    // Throws HttpRefusal before the body is read, so that a stranger's body costs nothing. Whether the client has shown
    // that it is the user: such a connection is closed for no other one.
    virtual bool check(const HttpHead& head) = 0;
    // Answers. What it throws becomes an error's answer if nothing has been sent.
    virtual Task<> serve(HttpExchange& exchange) = 0;
};

}  // namespace windlass
