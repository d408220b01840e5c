// chats.h: conversations with models. Each is a process of its own, `windlass chat`, that ends when it has not been
// used for a while, and with this process.
#pragma once

#include <map>
#include <string>

#include "ui/verbs.h"

namespace windlass {

class Chats {
  public:
    Chats(asio::io_context& context, Verbs& verbs) : context_(context), verbs_(verbs) {}

    static std::string new_id();
    // Starts `windlass chat` with these words, and passes on what it tells until it is ready; false if it could not
    // begin. Of the four that there may be, the one that has been idle for longest ends for another. HttpRefusal (429)
    // if all are busy.
    Task<bool> begin(std::string id, Words words, std::string system, const TakeEvent& take);
    // Sends a line, and passes on what the conversation tells until it has answered; the result is the name of the last
    // event. A client that leaves (HttpGone) interrupts the answer. HttpRefusal: 404, and 429 while another answer is
    // written.
    Task<std::string> say(std::string id, std::string line, const TakeEvent& take);
    bool has(const std::string& id) const { return chats_.contains(id); }
    bool is_busy(const std::string& id) const;
    // Nothing if there is no such conversation any more.
    void interrupt(const std::string& id);
    void end(const std::string& id);

  private:
    struct Chat;
    using Clock = std::chrono::steady_clock;

    Chat& find(const std::string& id) const;
    void make_room();
    Task<> end_when_idle(std::string id);

    asio::io_context& context_;
    Verbs& verbs_;
    std::map<std::string, std::shared_ptr<Chat>, std::less<>> chats_;
};

}  // namespace windlass
