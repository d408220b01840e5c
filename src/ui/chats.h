// chats.h: conversations with models. Each is a process of its own, `windlass chat`, that ends when it has not been
// used for a while, and with this process.
#pragma once

#include <map>
#include <string>

#include "ui/verbs.h"

namespace windlass {

class Chats {
  public:
    Chats(asio::io_context& context, const Verbs& verbs) : context_(context), verbs_(verbs) {}

    // Starts `windlass chat` with these words, and answers {"event":"chat","id"}, then what it says until it is ready.
    // Of the four that there may be, the one that has been idle for longest ends for another.
    Task<> begin(HttpExchange& exchange, Words words);
    // Passes the request's body on as a line, and answers with what the conversation says to it. A client that leaves
    // interrupts the answer. HttpRefusal: 404, and 429 while another answer is written.
    Task<> say(HttpExchange& exchange, std::string id);
    void interrupt(const std::string& id);
    void end(const std::string& id);

  private:
    struct Chat;
    using Clock = std::chrono::steady_clock;

    Chat& find(const std::string& id);
    void make_room();
    Task<> end_when_idle(std::string id);

    asio::io_context& context_;
    const Verbs& verbs_;
    std::map<std::string, std::shared_ptr<Chat>, std::less<>> chats_;
};

}  // namespace windlass
