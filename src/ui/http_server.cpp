#include "ui/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>

#include "base/failure_json.h"
#include "base/json.h"
#include "ui/json_line.h"

namespace windlass {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using std::chrono::seconds;

constexpr uint32_t kHeaderBytesMax = 16 << 10;
constexpr uint64_t kBodyBytesMax = 1 << 20;
constexpr size_t kConnectionsMax = 64;
constexpr seconds kRequestTime(5), kIdleTime(30), kWriteTime(60), kLingerTime(1);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr auto kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// Every answer has these. There is no header that lets another origin read one.
template <typename Fields>
void add_fixed_headers(Fields& fields) {
    fields.set("Content-Security-Policy", kPolicy);
    fields.set("X-Content-Type-Options", "nosniff");
    fields.set("Referrer-Policy", "no-referrer");
    fields.set("Cross-Origin-Resource-Policy", "same-origin");
    fields.set("Cross-Origin-Opener-Policy", "same-origin");
    fields.set(http::field::cache_control, "no-store");
}

std::string text_of(beast::string_view text) {
    return {text.data(), text.size()};
}

// Throws HttpRefusal for a request that two programs could read in two ways, and for HTTP/1.0, whose clients take no
// answer in parts.
void check_form(const http::request<http::string_body>& request) {
    if (request.version() != 11) throw HttpRefusal(400, "request", "is not HTTP/1.1");
    if (request.count(http::field::host) > 1) throw HttpRefusal(400, "Host", "is there twice");
}

// "from=12&x": no route's values have escapes.
std::map<std::string, std::string> query_of(std::string_view text) {
    std::map<std::string, std::string> query;
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(text.size(), one.size() + 1));
        const size_t equals = std::min(one.find('='), one.size());
        query[std::string(one.substr(0, equals))] = one.substr(std::min(equals + 1, one.size()));
    }
    return query;
}

HttpHead head_of(const http::request_header<>& request) {
    const std::string target = text_of(request.target());
    const size_t mark = std::min(target.find('?'), target.size());
    return {.method = text_of(request.method_string()),
            .path = target.substr(0, mark),
            .query = query_of(std::string_view(target).substr(std::min(mark + 1, target.size()))),
            .host = text_of(request[http::field::host]),
            .origin = text_of(request[http::field::origin]),
            .fetch_site = text_of(request["Sec-Fetch-Site"]),
            .fetch_mode = text_of(request["Sec-Fetch-Mode"]),
            .content_type = text_of(request[http::field::content_type]),
            .authorization = text_of(request[http::field::authorization])};
}

HttpReply error_reply(int status, ExitCode code, const std::string& message) {
    Json body = {{"error", failure_json(code, message)}};
    body["error"]["message"] = message;  // for clients of OpenAI's interface
    return {.status = status, .body = json_line(body) + "\n"};
}

// Nothing: a client that left, or said nothing in time.
std::optional<HttpReply> reply_to_bad_request(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return error_reply(431, ExitCode::usage, "request: the header is longer than 16 KiB");
    if (error == http::error::body_limit)
        return error_reply(413, ExitCode::usage, "request: the body is longer than 1 MiB");
    if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
    if (error.category() == make_error_code(http::error::bad_line_ending).category())
        return error_reply(400, ExitCode::usage, "request: is not HTTP/1.1: " + error.message());
    return std::nullopt;
}

class Connection : public HttpExchange, public std::enable_shared_from_this<Connection> {
  public:
    explicit Connection(Tcp::socket socket) : stream_(std::move(socket)) {}

    Task<> run(HttpHandler& handler) {
        try {
            while (co_await one_request(handler)) {
            }
            co_await linger();
        } catch (const HttpGone&) {
        }
        close();
    }

    void close() {
        error_code ignored;
        stream_.socket().close(ignored);
        if (const auto call = std::exchange(when_gone_, {})) call();
    }
    // Closed for another one: first a client that waits for nothing, then a stranger; the user's never.
    enum class Worth : uint8_t { idle, stranger, user };
    Worth worth() const { return is_user_ ? Worth::user : is_answering_ ? Worth::stranger : Worth::idle; }

    const HttpHead& head() const override { return head_; }
    const std::string& body() const override { return parser_->get().body(); }
    void when_gone(std::function<void()> call) override {
        when_gone_ = std::move(call);
        watch_end();
    }

    Task<> send(HttpReply reply) override {
        has_begun_ = true;
        http::response<http::string_body> response{static_cast<http::status>(reply.status), 11};
        add_fixed_headers(response);
        response.set(http::field::content_type, reply.type);
        for (const auto& [name, value] : reply.headers) response.set(name, value);
        response.keep_alive(keeps_alive_);
        response.body() = std::move(reply.body);
        response.prepare_payload();
        stream_.expires_after(kWriteTime);
        error_code error;
        co_await http::async_write(stream_, response, or_error(error));
        if (error) throw HttpGone();
    }

    Task<> begin_parts(std::string_view type) override {
        has_begun_ = has_parts_ = true;
        http::response<http::empty_body> response{http::status::ok, 11};
        add_fixed_headers(response);
        response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
        response.keep_alive(keeps_alive_);
        response.chunked(true);
        http::response_serializer<http::empty_body> serializer(response);
        stream_.expires_after(kWriteTime);
        error_code error;
        co_await http::async_write_header(stream_, serializer, or_error(error));
        if (error) throw HttpGone();
    }

    Task<> send_part(std::string_view part) override {
        if (!part.empty()) co_await write(http::make_chunk(asio::buffer(part.data(), part.size())));
    }

  private:
    template <typename Buffers>
    Task<> write(Buffers buffers) {
        stream_.expires_after(kWriteTime);
        error_code error;
        co_await asio::async_write(stream_, buffers, or_error(error));
        if (error) throw HttpGone();
    }

    // Whether the connection takes another one.
    Task<bool> one_request(HttpHandler& handler) {
        parser_.emplace();
        parser_->header_limit(kHeaderBytesMax);
        parser_->body_limit(kBodyBytesMax);
        has_begun_ = has_parts_ = keeps_alive_ = false;
        error_code error;
        co_await read_head(error);
        if (!error) {
            head_ = head_of(parser_->get());
            is_answering_ = true;
            co_await answer(handler, error);
            is_answering_ = is_user_ = false;
        }
        if (error) {
            const std::optional<HttpReply> reply = reply_to_bad_request(error);
            keeps_alive_ = false;
            if (!reply || has_begun_) throw HttpGone();
            co_await send(*reply);
        }
        co_return keeps_alive_;
    }

    // A connection may be idle for long before a request, and not within one.
    Task<> read_head(error_code& error) {
        if (!is_first_ && buffer_.size() == 0) {
            stream_.expires_after(kIdleTime);
            const size_t bytes = co_await stream_.async_read_some(buffer_.prepare(1024), or_error(error));
            buffer_.commit(bytes);
            if (error) co_return;
        }
        is_first_ = false;
        stream_.expires_after(kRequestTime);
        co_await http::async_read_header(stream_, buffer_, *parser_, or_error(error));
    }

    Task<> answer(HttpHandler& handler, error_code& error) {
        std::optional<HttpReply> refusal;
        try {
            check_form(parser_->get());
            is_user_ = handler.check(head_);
            if (beast::iequals(parser_->get()[http::field::expect], "100-continue"))
                co_await write(asio::buffer(kContinue));
            stream_.expires_after(kRequestTime);
            co_await http::async_read(stream_, buffer_, *parser_, or_error(error));
            if (error) co_return;
            keeps_alive_ = parser_->keep_alive();
            co_await handler.serve(*this);
            if (has_parts_) co_await write(http::make_chunk_last());
        } catch (const HttpRefusal& told) {
            refusal = error_reply(told.status(), told.code(), told.what());
        } catch (const Error& told) {
            refusal = error_reply(500, told.code(), told.what());
        } catch (const HttpGone&) {
            when_gone_ = {};  // the handler has ended
            throw;
        } catch (const std::bad_alloc&) {
            refusal = error_reply(500, ExitCode::no_fit, "memory: the system refuses more");
        } catch (const std::exception& told) {
            refusal = error_reply(500, ExitCode::internal, fmt::format("internal: {}", told.what()));
        }
        when_gone_ = {};
        if (!refusal) co_return;
        if (has_begun_) throw HttpGone();  // a part is missing, which the client sees
        co_await send(std::move(*refusal));
    }

    // Bytes of a client's next request end the watch: it is there. They may have been read already.
    void watch_end() {
        stream_.socket().async_wait(Tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
            char byte = 0;
            const auto count = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
            const bool is_there = count > 0 || (count < 0 && errno == EAGAIN);
            if (!error && is_there) return;
            if (const auto call = std::exchange(self->when_gone_, {})) call();
        });
    }

    // What a client still sends after its answer is read for a moment: closing at once would make the kernel reset the
    // connection, and the client lose the answer. The clock is read here too: while bytes keep coming, the stream's
    // timer hardly ever fires.
    Task<> linger() {
        error_code error;
        stream_.socket().shutdown(Tcp::socket::shutdown_send, error);
        stream_.expires_after(kLingerTime);
        std::array<char, 4096> rest;
        const auto end = std::chrono::steady_clock::now() + kLingerTime;
        while (!error && std::chrono::steady_clock::now() < end)
            co_await stream_.async_read_some(asio::buffer(rest), or_error(error));
    }

    beast::tcp_stream stream_;
    beast::flat_buffer buffer_{kHeaderBytesMax + 4096};  // at most
    std::optional<http::request_parser<http::string_body>> parser_;
    HttpHead head_;
    std::function<void()> when_gone_;
    bool is_first_ = true, is_answering_ = false, is_user_ = false, has_begun_ = false, has_parts_ = false,
         keeps_alive_ = false;
};

}  // namespace

struct HttpServer::State {
    State(asio::io_context& the_context) : context(the_context), acceptor(the_context) {}

    // False if every connection is the user's.
    bool make_room() {
        std::erase_if(connections, [](const auto& each) { return each.expired(); });
        if (connections.size() < kConnectionsMax) return true;
        const auto worth = [](const std::weak_ptr<Connection>& each) { return each.lock()->worth(); };
        const auto least = std::ranges::min_element(connections, {}, worth);  // the oldest of equals
        if (worth(*least) == Connection::Worth::user) return false;
        least->lock()->close();
        connections.erase(least);
        return true;
    }

    Task<> accept(HttpHandler& handler) {
        for (;;) {
            error_code error;
            Tcp::socket socket(context);
            co_await acceptor.async_accept(socket, or_error(error));
            if (error == asio::error::operation_aborted) co_return;
            if (error) {  // no descriptor is left, for one
                co_await pause(std::chrono::milliseconds(100));
                continue;
            }
            if (!make_room()) continue;
            const auto connection = std::make_shared<Connection>(std::move(socket));
            connections.push_back(connection);
            const auto serve = [connection, &handler]() -> Task<> { co_await connection->run(handler); };
            asio::co_spawn(context, serve, asio::detached);
        }
    }

    asio::io_context& context;
    Tcp::acceptor acceptor;
    std::list<std::weak_ptr<Connection>> connections;  // oldest first
};

HttpServer::HttpServer(asio::io_context& context, uint16_t port) : state_(std::make_shared<State>(context)) {
    const Tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
    error_code error;
    state_->acceptor.open(endpoint.protocol(), error);
    if (!error) state_->acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) state_->acceptor.bind(endpoint, error);
    if (!error) state_->acceptor.listen(kConnectionsMax, error);
    if (error) throw MachineError("bind", fmt::format("127.0.0.1:{}", port), error.value());
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const {
    return state_->acceptor.local_endpoint().port();
}

void HttpServer::serve(HttpHandler& handler) {
    const auto accept = [state = state_, &handler]() -> Task<> { co_await state->accept(handler); };
    asio::co_spawn(state_->context, accept, asio::detached);
}

}  // namespace windlass
