// http_client.h: HTTP by hand, for tests of a server: what is sent are the bytes that the test writes, right or wrong.
//
// Every wait has a limit, after which it counts as no answer. Not for several threads.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace windlass::page {

struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // chunks put together
    std::string header(const std::string& name) const;
};

// One connection to a port of 127.0.0.1.
class Connection {
  public:
    explicit Connection(int port);
    ~Connection();
    Connection(Connection&& other) noexcept;
    Connection(const Connection&) = delete;
    Connection& operator=(Connection&& other) noexcept;

    bool is_open() const { return socket_ >= 0; }
    // Whether all of it went out: false as soon as the server does not take any more within `seconds`.
    bool send(std::string_view bytes, double seconds = 5);
    // Sends as much as is taken at once; the rest goes out before the next bytes. False when the server has closed.
    bool offer(std::string_view bytes);
    // The next answer; nothing if the server closes without one.
    std::optional<Answer> read(double seconds = 30);
    // Whether the server closes within this time; what it sends until then is dropped.
    bool closes_within(double seconds);

  private:
    bool receive(double seconds);

    int socket_ = -1;
    std::string received_, unsent_;
    bool is_ended_ = false;
};

struct Request {
    std::string method = "GET", path = "/";
    std::map<std::string, std::string> headers;  // one with an empty value is not sent
    std::string body;
    // The bytes, with a Content-Length unless the headers say how long the body is.
    std::string bytes() const;
};

std::optional<Answer> ask(int port, const Request& request, double seconds = 30);

}  // namespace windlass::page
