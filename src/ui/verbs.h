// verbs.h: the page's requests as command lines of this program, and the events of a verb as the answer to one.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ui/child_process.h"
#include "ui/http.h"
#include "ui/root.h"

namespace windlass {

using Words = std::vector<std::string>;
// In a coroutine in place of braces, which GCC 12 does not compile next to co_await.
template <typename... Texts>
Words words_of(Texts&&... texts) {
    Words words;
    (words.emplace_back(std::forward<Texts>(texts)), ...);
    return words;
}

// "run" of {"event":"run",...}; empty where the line is no event.
std::string_view event_of(std::string_view line);

// The member of a request's body, of its type; absent or null: the one given. HttpRefusal (400) for another type.
std::string text_member(const Json& body, const char* key, const std::string& absent = "");
double number_member(const Json& body, const char* key, double absent);
bool flag_member(const Json& body, const char* key);
// The body as an object. HttpRefusal (400).
Json body_of(const HttpExchange& exchange);

// What a verb prints with --json: its result, or {"error": ...} and a status that is not 200.
struct VerbResult {
    int status = 200;
    std::string text;
};

class Verbs {
  public:
    Verbs(asio::io_context& context, const Root& root) : context_(context), root_(root) {}

    // `settings` as words of the command line, "key=value". Names of files are checked against the root: those of the
    // keys that the configuration's schema marks so. HttpRefusal (400).
    Task<Words> setting_words(const Json& settings);
    // What `windlass config schema --json` prints.
    Task<std::string> schema_text();

    // The verb keeps to the root and the other folders, and ends with this process unless it outlives it.
    std::shared_ptr<ChildProcess> start(Words words, bool takes_input = false, bool outlives = false) const;
    // HttpRefusal (429) if too many are at work.
    Task<VerbResult> result(Words words);
    // Answers with the events of a verb until it ends, or until this event, after which the child continues by itself.
    // The child ends with the client, if no such event is given. HttpRefusal (429) if too many answer so.
    // `started`: is set to the child.
    Task<> answer(HttpExchange& exchange, Words words, std::string_view last = "",
                  std::shared_ptr<ChildProcess>* started = nullptr);

  private:
    Task<> read_schema();

    asio::io_context& context_;
    const Root& root_;
    std::string schema_text_;
    std::set<std::string, std::less<>> keys_of_files_;
    int answers_ = 0, results_ = 0;
};

// Takes an event's line, without its end.
using TakeEvent = std::function<Task<>(const std::string& line)>;

// Passes on the events of a child until one with a name of `last`, or one that ends every verb; that one is passed on
// too, and its name is the result. A child that ends without such a word is told of as an error.
Task<std::string> pass_events(const TakeEvent& take, ChildProcess& child, Words last);
// Takes events as parts of an answer, one on each line; the answer begins with the first.
TakeEvent send_to(HttpExchange& exchange);

}  // namespace windlass
