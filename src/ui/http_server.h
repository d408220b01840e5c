// http_server.h: HTTP/1.1 on 127.0.0.1, on the thread that runs the context, within limits that hold for any client:
//
//   16 KiB of headers (431), 1 MiB of body (413), 5 s to send a request, 30 s between two of one connection,
//   60 s to take a part of an answer, 64 connections: for another one the oldest is closed that waits for nothing, or,
//   if there is no such one, that has not shown the token
//
// A connection costs some KiB until its head has been checked. Boost.Beast reads and writes; nothing else names it.
#pragma once

#include <cstdint>
#include <memory>

#include "ui/http.h"

namespace windlass {

class HttpServer {
  public:
    // Listens on this port of 127.0.0.1, or on one that the kernel chooses, if it is 0. Throws MachineError(bind) with
    // EADDRINUSE if it is taken.
    HttpServer(asio::io_context& context, uint16_t port);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    uint16_t port() const;
    // From now on, until the context stops. The handler outlives it.
    void serve(HttpHandler& handler);

  private:
    struct State;
    const std::shared_ptr<State> state_;
};

}  // namespace windlass
