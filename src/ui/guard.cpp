#include "ui/guard.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

namespace windlass {
namespace {

// In a time that does not tell how much of it is right.
bool is_same(std::string_view given, std::string_view wanted) {
    unsigned char difference = given.size() == wanted.size() ? 0 : 1;
    for (size_t i = 0; i < wanted.size(); ++i)
        difference |= static_cast<unsigned char>(wanted[i] ^ (i < given.size() ? given[i] : 0));
    return difference == 0;
}

// "Application/JSON ; charset=utf-8"
bool is_json(std::string_view type) {
    std::string name;
    for (const char c : type.substr(0, type.find(';')))
        if (c != ' ' && c != '\t') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name == "application/json";
}

// A link that a user followed shows the page, which holds nothing without the token.
bool is_foreign(const HttpHead& head, bool needs_token) {
    const std::string& site = head.fetch_site;
    const bool is_followed = !needs_token && head.is_get() && head.fetch_mode == "navigate";
    return !site.empty() && site != "same-origin" && site != "none" && !is_followed;
}

}  // namespace

std::string make_token() {
    std::array<unsigned char, 16> bytes;
    if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) throw MachineError("getrandom", "token", errno);
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Guard::Guard(uint16_t port, std::string token)
    : address_(fmt::format("127.0.0.1:{}", port)), name_(fmt::format("localhost:{}", port)), token_(std::move(token)) {}

void Guard::check(const HttpHead& head, bool needs_token) const {
    if (head.host != address_ && head.host != name_)
        throw HttpRefusal(421, "Host", "this server is {}, not \"{}\"", address_, head.host);
    if (!head.origin.empty() && head.origin != "http://" + address_ && head.origin != "http://" + name_)
        throw HttpRefusal(403, "Origin", "\"{}\" may not use this page", head.origin);
    if (is_foreign(head, needs_token))
        throw HttpRefusal(403, "Sec-Fetch-Site", "\"{}\": another page may not use this one", head.fetch_site);
    if (!needs_token) return;
    if (!is_same(head.authorization, "Bearer " + token_)) {
        HttpRefusal refusal(401, "Authorization", "the token is missing or wrong");
        refusal.hint("the address that windlass ui printed");
        throw refusal;
    }
}

void Guard::check_content(const HttpHead& head) {
    if (!is_json(head.content_type))
        throw HttpRefusal(415, "Content-Type", "\"{}\" was sent; application/json was expected", head.content_type);
}

}  // namespace windlass
