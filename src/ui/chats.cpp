#include "ui/chats.h"

#include <algorithm>

#include "ui/guard.h"
#include "ui/json_line.h"

namespace windlass {
namespace {

constexpr size_t kChatsMax = 4;
constexpr std::chrono::minutes kChatIdleTime(15);

std::string chat_line(const std::string& id) {
    const Json line = {{"event", "chat"}, {"id", id}};
    return json_line(line);
}

std::string system_line(const std::string& text) {
    const Json line = {{"command", "system"}, {"content", text}};
    return json_line(line);
}

Words answer_ends() {
    return words_of("answer", "obeyed", "refused");
}

// Reads until one of the named events; empty if the child ends before.
Task<std::string> skip_events(ChildProcess& child, Words last) {
    for (;;) {
        const std::optional<std::string> line = co_await child.read_line();
        if (!line) co_return "";
        if (const auto found = std::ranges::find(last, event_of(*line)); found != last.end()) co_return *found;
    }
}

}  // namespace

struct Chats::Chat {
    explicit Chat(std::shared_ptr<ChildProcess> the_child) : child(std::move(the_child)) {}
    ~Chat() { child->end(); }

    // Once for each answer: a second one would end the program.
    void interrupt() {
        if (is_busy && !std::exchange(was_interrupted, true)) child->interrupt();
    }

    const std::shared_ptr<ChildProcess> child;
    bool is_busy = true;  // until it is ready
    bool was_interrupted = true;
    Clock::time_point used = Clock::now();
};

Chats::Chat& Chats::find(const std::string& id) const {
    const auto found = chats_.find(id);
    if (found == chats_.end()) throw HttpRefusal(404, "chat", "there is no conversation {}", id);
    return *found->second;
}

void Chats::make_room() {
    if (chats_.size() < kChatsMax) return;
    const auto oldest = std::ranges::min_element(
        chats_, {}, [](const auto& each) { return std::pair(each.second->is_busy, each.second->used); });
    if (oldest->second->is_busy)
        throw HttpRefusal(429, "chat", "{} conversations are busy; no more are begun", chats_.size());
    chats_.erase(oldest);
}

std::string Chats::new_id() {
    return make_token();
}

Task<bool> Chats::begin(std::string id, Words words, std::string system, const TakeEvent& take) {
    make_room();
    words.emplace_back("--json=lines");
    const auto chat = std::make_shared<Chat>(verbs_.start(words, true));
    chats_[id] = chat;
    asio::co_spawn(
        context_, [this, id]() -> Task<> { co_await end_when_idle(id); }, asio::detached);
    std::string last;
    try {
        co_await take(chat_line(id));
        last = co_await pass_events(take, *chat->child, words_of("ready"));
        // Not as a word of the command line, which other users of the machine can read.
        if (last == "ready" && !system.empty()) co_await chat->child->write_line(system_line(system));
        if (last == "ready" && !system.empty()) co_await skip_events(*chat->child, answer_ends());
    } catch (const HttpGone&) {
        end(id);
        throw;
    }
    chat->is_busy = false;
    if (last != "ready") chats_.erase(id);
    co_return last == "ready";
}

Task<std::string> Chats::say(std::string id, std::string line, const TakeEvent& take) {
    if (is_busy(id)) throw HttpRefusal(429, "chat", "the conversation is writing an answer");
    const std::shared_ptr<Chat> chat = chats_[id];
    chat->is_busy = true;
    chat->was_interrupted = false;
    bool client_is_here = true;
    std::string last;
    try {
        co_await chat->child->write_line(std::move(line));
        last = co_await pass_events(take, *chat->child, answer_ends());
    } catch (const HttpGone&) {
        client_is_here = false;
        chat->interrupt();
    }
    // What a client that left does not take is read all the same: the next question begins with its own answer.
    if (!client_is_here) last = co_await skip_events(*chat->child, answer_ends());
    chat->is_busy = false;
    chat->used = Clock::now();
    const Words ends = answer_ends();
    if (std::ranges::find(ends, last) == ends.end()) chats_.erase(id);
    if (!client_is_here) throw HttpGone();
    co_return last;
}

bool Chats::is_busy(const std::string& id) const {
    return find(id).is_busy;
}

void Chats::interrupt(const std::string& id) {
    if (const auto found = chats_.find(id); found != chats_.end()) found->second->interrupt();
}

void Chats::end(const std::string& id) {
    if (const auto found = chats_.find(id); found != chats_.end()) {
        found->second->child->end();  // also one that answers
        chats_.erase(found);
    }
}

Task<> Chats::end_when_idle(std::string id) {
    for (;;) {
        co_await pause(std::chrono::minutes(1));
        const auto found = chats_.find(id);
        if (found == chats_.end()) co_return;
        if (found->second->is_busy || Clock::now() - found->second->used < kChatIdleTime) continue;
        chats_.erase(found);
        co_return;
    }
}

}  // namespace windlass
