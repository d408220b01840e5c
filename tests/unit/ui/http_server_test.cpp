#include "ui/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "ui/descriptor.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::milliseconds kTick(5);

// Answers "/echo" with its body, "/parts" in parts until the client leaves or three were taken, "/fail" with an error.
class Handler : public HttpHandler {
  public:
    bool check(const HttpHead& head) override {
        ++checked;
        if (head.path == "/refused") throw HttpRefusal(401, "token", "is missing");
        return head.path == "/parts";
    }
    Task<> serve(HttpExchange& exchange) override {
        if (exchange.head().path == "/fail") throw UserError(ExitCode::storage, "disk", "is full");
        if (exchange.head().path != "/parts") {
            HttpReply reply;
            reply.body = exchange.head().method + exchange.body();
            co_await exchange.send(std::move(reply));
            co_return;
        }
        co_await exchange.begin_parts("text/plain");
        exchange.when_gone([this] { client_left = true; });
        co_await exchange.send_part("one");
        while (!client_left && !may_end) co_await pause(kTick);
        co_await exchange.send_part("two");
    }

    std::atomic<int> checked = 0;
    std::atomic<bool> client_left = false, may_end = false;
};

class Client {
  public:
    explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        timeval patience = {.tv_sec = 20};
        ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    // False: the server has closed.
    bool send(std::string_view text) const {
        while (!text.empty()) {
            const auto sent = ::send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            text.remove_prefix(static_cast<size_t>(sent));
        }
        return true;
    }
    // What comes until `end` is in it, or the server closes.
    std::string read_until(std::string_view end) const {
        std::string text;
        std::array<char, 4096> bytes;
        while (text.find(end) == text.npos) {
            const auto count = ::recv(socket_.number(), bytes.data(), bytes.size(), 0);
            if (count <= 0) break;
            text.append(bytes.data(), static_cast<size_t>(count));
        }
        return text;
    }
    std::string read_to_end() const { return read_until("\x01 never \x01"); }

  private:
    const Descriptor socket_;
};

class HttpServerTest : public testing::Test {
  protected:
    HttpServerTest() {
        server_.serve(handler_);
        thread_ = std::thread([this] { context_.run(); });
    }
    ~HttpServerTest() override {
        context_.stop();
        thread_.join();
    }
    uint16_t port() const { return server_.port(); }
    Client client() const { return Client(port()); }
    std::string answer_to(const std::string& request) const {
        const Client client = this->client();
        client.send(request);
        return client.read_to_end();
    }

    Handler handler_;

  private:
    asio::io_context context_{1};
    HttpServer server_{context_, 0};
    std::thread thread_;
};

TEST_F(HttpServerTest, AnswersRequestsOfOneConnectionInTurn) {
    const Client client = this->client();
    client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nfirst");
    EXPECT_THAT(client.read_until("POSTfirst"),
                AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("default-src 'none'"), HasSubstr("nosniff")));
    client.send("GET /echo?from=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(client.read_to_end(), HasSubstr("\r\n\r\nGET"));
}

TEST_F(HttpServerTest, SendsPartsAsTheyAreMade) {
    const Client client = this->client();
    client.send("GET /parts HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(client.read_until("one\r\n"), HasSubstr("chunked"));
    handler_.may_end = true;
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "3\r\ntwo\r\n0\r\n\r\n");
    client.send("GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(client.read_to_end(), HasSubstr("\r\n\r\nGET"));
}

TEST_F(HttpServerTest, NoticesThatAQuietClientLeft) {
    {
        const Client client = this->client();
        client.send("GET /parts HTTP/1.1\r\nHost: h\r\n\r\n");
        client.read_until("one");
    }
    for (int waited = 0; !handler_.client_left && waited < 2000; ++waited) std::this_thread::sleep_for(kTick);
    EXPECT_TRUE(handler_.client_left);
}

TEST_F(HttpServerTest, TellsErrorsAsJson) {
    EXPECT_THAT(answer_to("GET /fail HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 500"), HasSubstr(R"("place":"disk")")));
    EXPECT_THAT(answer_to("NONSENSE\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, RefusesAHeadBeforeItsBody) {
    EXPECT_THAT(answer_to("POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"),
                StartsWith("HTTP/1.1 401"));
    EXPECT_THAT(answer_to("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 107374182400\r\n\r\n"),
                StartsWith("HTTP/1.1 413"));
    EXPECT_THAT(answer_to("GET /echo HTTP/1.1\r\nX: " + std::string(17 << 10, 'a')), StartsWith("HTTP/1.1 431"));
}

TEST_F(HttpServerTest, EndsABodyThatDoesNot) {
    const Client client = this->client();
    client.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "10000\r\n" + std::string(1 << 16, 'a') + "\r\n";
    for (int sent = 0; sent < 100 && client.send(chunk); ++sent) {
    }
    EXPECT_THAT(client.read_to_end(), testing::AnyOf(StartsWith("HTTP/1.1 413"), testing::IsEmpty()));
    EXPECT_THAT(answer_to("GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), HasSubstr("GET"));
}

TEST_F(HttpServerTest, AnswersThoughManyConnectionsAreOpen) {
    std::vector<std::unique_ptr<Client>> held;
    for (int i = 0; i < 200; ++i) {
        held.push_back(std::make_unique<Client>(port()));
        held.back()->send("GET /echo HTTP/1.1\r\n");
    }
    EXPECT_THAT(answer_to("GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), HasSubstr("\r\n\r\nGET"));
    EXPECT_EQ(held.front()->read_to_end(), "") << "the oldest was closed";
}

TEST(HttpServer, SaysThatAPortIsTaken) {
    asio::io_context context;
    const HttpServer server(context, 0);
    try {
        const HttpServer second(context, server.port());
        FAIL();
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), EADDRINUSE);
    }
}

}  // namespace
}  // namespace windlass
