#include "ui/verbs.h"

#include <algorithm>
#include <array>

#include "base/failure_json.h"
#include "ui/json_line.h"

namespace windlass {
namespace {

constexpr size_t kResultBytesMax = 8 << 20;
constexpr size_t kWordBytesMax = 100 << 10;  // the kernel takes 128 KiB
constexpr int kAnswersMax = 16;

bool is_key(std::string_view key) {
    return !key.empty() && std::ranges::all_of(key, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

// Of a key whose value is one name, several, or names with values.
void check_files(const Root& root, const Json& value, const std::string& key) {
    if (value.is_string() && !value.get_ref<const std::string&>().empty())
        root.checked(value.get_ref<const std::string&>(), key);
    if (value.is_array())
        for (const Json& each : value) check_files(root, each, key);
    if (value.is_object())
        for (const auto& [name, each] : value.items()) {
            root.checked(name, key);
            check_files(root, each, key);
        }
}

constexpr size_t kKeysMax = 500;

void check_length(const std::string& key, size_t bytes) {
    if (bytes > kWordBytesMax) throw HttpRefusal(400, key, "the value is longer than 100 KiB");
}

// A value as a word of the command line takes it: texts bare, but one in brackets would be read as a list; what holds
// names with values as a list of "name=value".
std::string word_of_value(const std::string& key, const Json& value) {
    check_length(key, json_line(value).size());
    if (value.is_string() && !value.get_ref<const std::string&>().starts_with('[')) return value.get<std::string>();
    if (value.is_string()) return json_line(Json::array({value}));
    if (!value.is_object()) return json_line(value);
    Json pairs = Json::array();
    size_t bytes = 0;  // a long name with many values is many long pairs
    for (const auto& [name, each] : value.items())
        for (const Json& one : each.is_array() ? each : Json::array({each})) {
            pairs.push_back(name + "=" + (one.is_string() ? one.get<std::string>() : json_line(one)));
            check_length(key, bytes += pairs.back().get_ref<const std::string&>().size());
        }
    return json_line(pairs);
}

// The status of an answer whose verb failed: the request's fault, the model's or the rows', or the machine's.
int status_of(int code) {
    if (code == static_cast<int>(ExitCode::usage)) return 400;
    return code == static_cast<int>(ExitCode::internal) || code == static_cast<int>(ExitCode::storage) ? 500 : 422;
}

// Counts an answer while it is made.
class Turn {
  public:
    explicit Turn(int& count) : count_(count) { ++count_; }
    ~Turn() { --count_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    int& count_;
};

// Ends a child, or leaves it to itself, whatever ended the answer.
class Custody {
  public:
    Custody(std::shared_ptr<ChildProcess> child, bool outlives) : child_(std::move(child)), outlives_(outlives) {}
    ~Custody() {
        if (outlives_)
            ChildProcess::drain(child_);
        else
            child_->end();
    }
    Custody(const Custody&) = delete;
    Custody& operator=(const Custody&) = delete;

  private:
    const std::shared_ptr<ChildProcess> child_;
    const bool outlives_;
};

constexpr std::array kEnds = {"done", "stopped", "error"};

// The event of a child that ended without a word.
std::string silent_end_line() {
    Json line = {{"event", "error"}};
    line.update(failure_json(ExitCode::internal,
                             "windlass: the process ended without a word. Try: the same command in a "
                             "terminal, which shows its messages"));
    return json_line(line);
}

template <typename Is>
const Json* member(const Json& body, const char* key, const Is& is, const char* expected) {
    const auto found = body.find(key);
    if (found == body.end() || found->is_null()) return nullptr;
    if (!is(*found)) throw HttpRefusal(400, key, "{} was expected", expected);
    return &*found;
}

}  // namespace

std::string_view event_of(std::string_view line) {
    constexpr std::string_view kHead = R"({"event":")";
    if (!line.starts_with(kHead)) return "";
    return line.substr(kHead.size(), line.find('"', kHead.size()) - kHead.size());
}

std::string text_member(const Json& body, const char* key, const std::string& absent) {
    const Json* found = member(
        body, key, [](const Json& each) { return each.is_string(); }, "a text");
    return found == nullptr ? absent : found->get<std::string>();
}

double number_member(const Json& body, const char* key, double absent) {
    const Json* found = member(
        body, key, [](const Json& each) { return each.is_number(); }, "a number");
    return found == nullptr ? absent : found->get<double>();
}

bool flag_member(const Json& body, const char* key) {
    const Json* found = member(
        body, key, [](const Json& each) { return each.is_boolean(); }, "true or false");
    return found != nullptr && found->get<bool>();
}

Json body_of(const HttpExchange& exchange) {
    Json body;
    try {
        body = parse_json(exchange.body(), "body", ExitCode::usage);
    } catch (const UserError& error) {
        throw HttpRefusal(400, "body", "is not JSON: {}", error.what());
    }
    if (!body.is_object()) throw HttpRefusal(400, "body", "is no JSON object");
    return body;
}

Task<> Verbs::read_schema() {
    if (!schema_text_.empty()) co_return;
    VerbResult printed = co_await result(words_of("config", "schema"));
    const Json schema = parse_json(printed.text, "schema", ExitCode::internal);
    for (const auto& [key, property] : schema["schema"]["properties"].items())
        if (property.value("format", "") == "path") keys_of_files_.insert(key);
    // An alias is read as its key.
    for (const auto& [key, property] : schema["schema"]["properties"].items()) {
        const std::string target = property.value("$ref", "");
        if (keys_of_files_.contains(target.substr(target.rfind('/') + 1))) keys_of_files_.insert(key);
    }
    schema_text_ = std::move(printed.text);
}

Task<std::string> Verbs::schema_text() {
    co_await read_schema();
    co_return schema_text_;
}

Task<Words> Verbs::setting_words(const Json& settings) {
    if (!settings.is_object()) throw HttpRefusal(400, "settings", "an object of keys and values was expected");
    if (settings.size() > kKeysMax)
        throw HttpRefusal(400, "settings", "{} keys, at most {}", settings.size(), kKeysMax);
    co_await read_schema();
    Words words;
    for (const auto& [key, value] : settings.items()) {
        if (!is_key(key)) throw HttpRefusal(400, "settings", "\"{}\" is no key", key);
        if (keys_of_files_.contains(key)) check_files(root_, value, key);
        words.push_back(key + "=" + word_of_value(key, value));
    }
    co_return words;
}

std::shared_ptr<ChildProcess> Verbs::start(Words words, bool takes_input, bool outlives) const {
    for (const std::string& word : words) check_length(words[0], word.size());
    words.push_back("--within=" + root_.folder());
    for (const std::string& other : root_.others()) words.push_back("--within=" + other);
    if (!outlives) words.emplace_back("--end-with-parent");
    return std::make_shared<ChildProcess>(context_, words, root_.folder(), takes_input);
}

Task<VerbResult> Verbs::result(Words words) {
    if (results_ >= kAnswersMax) throw HttpRefusal(429, "page", "{} verbs are at work; no more are begun", results_);
    const Turn turn(results_);
    words.emplace_back("--json");
    const std::shared_ptr<ChildProcess> child = start(words);
    const Custody custody(child, false);
    std::optional<std::string> text = co_await child->read_all(kResultBytesMax);
    if (!text || text->empty()) throw HttpRefusal(500, words[0], "the process gave no result");
    const Json json = parse_json(*text, words[0], ExitCode::internal);
    const auto error = json.find("error");
    const int status = error == json.end() ? 200 : status_of(error->value("code", 1));
    co_return VerbResult{status, std::move(*text)};
}

Task<> Verbs::answer(HttpExchange& exchange, Words words, std::string_view last,
                     std::shared_ptr<ChildProcess>* started) {
    if (answers_ >= kAnswersMax)
        throw HttpRefusal(429, "page", "{} requests are being answered; no more are taken", answers_);
    const Turn turn(answers_);
    words.emplace_back("--json=lines");
    const std::shared_ptr<ChildProcess> child = start(words, false, !last.empty());
    const Custody custody(child, !last.empty());
    if (started != nullptr) *started = child;
    if (last.empty()) exchange.when_gone([child] { child->end(); });
    const TakeEvent take = send_to(exchange);
    co_await pass_events(take, *child, words_of(last));
}

TakeEvent send_to(HttpExchange& exchange) {
    const auto has_begun = std::make_shared<bool>(false);
    return [&exchange, has_begun](const std::string& line) -> Task<> {
        if (!std::exchange(*has_begun, true)) co_await exchange.begin_parts("application/x-ndjson");
        co_await exchange.send_part(line + "\n");
    };
}

Task<std::string> pass_events(const TakeEvent& take, ChildProcess& child, Words last) {
    for (const char* each : kEnds) last.emplace_back(each);
    for (;;) {
        std::optional<std::string> line = co_await child.read_line();
        if (!line) line = silent_end_line();
        co_await take(*line);
        const auto found = std::ranges::find(last, event_of(*line));
        if (found != last.end()) co_return *found;
    }
}

}  // namespace windlass
