#include "tests/page/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/cli/process.h"

namespace windlass::page {
namespace {

using cli::clock_seconds;

constexpr std::string_view kLineEnd = "\r\n";

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

// Waits until the socket can be read or written, or until the time is over.
bool waits(int socket, short events, double seconds) {
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    return ::poll(&waiting, 1, std::max(0, static_cast<int>(seconds * 1000))) > 0;
}

Answer parse_head(std::string_view head) {
    Answer answer;
    size_t begin = std::min(head.find(kLineEnd), head.size());
    const std::string_view first = head.substr(0, begin);
    if (first.starts_with("HTTP/1.1 ") && first.size() >= 12)
        answer.status = std::stoi(std::string(first.substr(9, 3)));
    while (begin < head.size()) {
        begin += kLineEnd.size();
        const size_t end = std::min(head.find(kLineEnd, begin), head.size());
        const std::string_view line = head.substr(begin, end - begin);
        const size_t colon = line.find(':');
        if (colon != std::string_view::npos) {
            const size_t value = std::min(line.find_first_not_of(' ', colon + 1), line.size());
            answer.headers[lower(std::string(line.substr(0, colon)))] = line.substr(value);
        }
        begin = end;
    }
    return answer;
}

// The chunks at the front of `bytes`, put together; nothing while the last one is missing.
std::optional<std::string> join_chunks(std::string_view bytes) {
    std::string body;
    for (size_t begin = 0;;) {
        const size_t end = bytes.find(kLineEnd, begin);
        if (end == std::string_view::npos) return std::nullopt;
        const size_t count = std::stoul(std::string(bytes.substr(begin, end - begin)), nullptr, 16);
        begin = end + kLineEnd.size();
        if (bytes.size() < begin + count + kLineEnd.size()) return std::nullopt;
        if (count == 0) return body;
        body += bytes.substr(begin, count);
        begin += count + kLineEnd.size();
    }
}

}  // namespace

std::string Answer::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

Connection::Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
    ::close(std::exchange(socket_, -1));
}

Connection::~Connection() {
    if (socket_ >= 0) ::close(socket_);
}

Connection::Connection(Connection&& other) noexcept {
    *this = std::move(other);
}

Connection& Connection::operator=(Connection&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(received_, other.received_);
    std::swap(unsent_, other.unsent_);
    std::swap(is_ended_, other.is_ended_);
    return *this;
}

bool Connection::send(std::string_view bytes, double seconds) {
    for (const double end = clock_seconds() + seconds; !bytes.empty();) {
        if (!is_open() || !waits(socket_, POLLOUT, end - clock_seconds())) return false;
        const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno != EAGAIN) return false;
        bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
    return true;
}

bool Connection::offer(std::string_view bytes) {
    if (unsent_.empty()) unsent_ = bytes;
    const ssize_t count = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN;
    unsent_.erase(0, static_cast<size_t>(count));
    return true;
}

bool Connection::receive(double seconds) {
    if (is_ended_ || !is_open() || !waits(socket_, POLLIN, seconds)) return false;
    std::array<char, 65536> piece{};
    const ssize_t count = ::recv(socket_, piece.data(), piece.size(), 0);
    is_ended_ = count <= 0;
    if (count > 0) received_.append(piece.data(), static_cast<size_t>(count));
    return !is_ended_;
}

std::optional<Answer> Connection::read(double seconds) {
    const double end = clock_seconds() + seconds;
    size_t head = 0;
    while ((head = received_.find("\r\n\r\n")) == std::string::npos)
        if (!receive(end - clock_seconds())) return std::nullopt;
    Answer answer = parse_head(std::string_view(received_).substr(0, head));
    received_.erase(0, head + 4);
    const std::string length = answer.header("content-length");
    const bool is_chunked = answer.header("transfer-encoding") == "chunked";
    const bool is_empty = answer.status == 204 || answer.status == 304;
    for (std::optional<std::string> body; !is_empty;) {
        if (is_chunked) body = join_chunks(received_);
        if (!length.empty() && received_.size() >= std::stoul(length)) body = received_.substr(0, std::stoul(length));
        if (body) {
            answer.body = *body;
            break;
        }
        if (receive(end - clock_seconds())) continue;
        if (is_chunked || !length.empty() || !is_ended_) return std::nullopt;  // it is cut
        answer.body = received_;                                               // until the connection ends
        break;
    }
    received_.clear();
    return answer;
}

bool Connection::closes_within(double seconds) {
    const double end = clock_seconds() + seconds;
    while (receive(end - clock_seconds())) received_.clear();
    return is_ended_ || !is_open();
}

std::string Request::bytes() const {
    std::string text = fmt::format("{} {} HTTP/1.1\r\n", method, path);
    std::map<std::string, std::string> all = headers;
    if (!body.empty() && !all.contains("Transfer-Encoding"))
        all.try_emplace("Content-Length", std::to_string(body.size()));
    for (const auto& [name, value] : all)
        if (!value.empty()) text += fmt::format("{}: {}\r\n", name, value);
    return text + "\r\n" + body;
}

std::optional<Answer> ask(int port, const Request& request, double seconds) {
    Connection connection(port);
    // A server that refuses by the headers may answer before it has taken the body.
    connection.send(request.bytes());
    return connection.read(seconds);
}

}  // namespace windlass::page
