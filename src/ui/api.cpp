#include "ui/api.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "ui/json_line.h"
#include "ui/page_files.h"
#include "ui/places.h"

namespace windlass {
namespace {

bool needs_token(std::string_view path) {
    return path.starts_with("/api/") || path.starts_with("/v1/");
}

// Whether a path is of this pattern, whose stars stand for one part each.
bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& parts) {
    parts.clear();
    while (!pattern.empty() && !path.empty()) {
        const std::string_view wanted = pattern.substr(0, pattern.find('/', 1)),
                               part = path.substr(0, path.find('/', 1));
        if (wanted == "/*" ? part.size() < 2 : wanted != part) return false;
        if (wanted == "/*") parts.emplace_back(part.substr(1));
        pattern.remove_prefix(wanted.size());
        path.remove_prefix(part.size());
    }
    return pattern.empty() && path.empty();
}

// A word that a verb takes as the value of a flag: bf16, q8_0.
std::string plain_word(const Json& body, const char* key) {
    const std::string word = text_member(body, key);
    if (std::ranges::any_of(word, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; }))
        throw HttpRefusal(400, key, "\"{}\" is no word", word);
    return word;
}

// A question, or a command that touches no file.
std::string chat_line_of(const Json& body) {
    constexpr std::array<std::string_view, 3> kCommands = {"undo", "reset", "system"};
    const std::string command = text_member(body, "command");
    if (!command.empty() && std::ranges::find(kCommands, command) == kCommands.end())
        throw HttpRefusal(400, "command", "\"{}\" is not one of: {}", command, fmt::join(kCommands, ", "));
    Json line = {{"content", text_member(body, "content")}};
    if (!command.empty()) line["command"] = command;
    return json_line(line);
}

HttpReply reply_with(const Json& json) {
    return {.body = json_line(json) + "\n"};
}

HttpReply reply_with(VerbResult result) {
    return {.status = result.status, .body = std::move(result.text)};
}

HttpReply reply_of(int status) {
    return {.status = status, .body = status == 204 ? "" : "{}\n"};
}

template <typename... Texts>
void add(Words& words, Texts&&... texts) {
    (words.emplace_back(std::forward<Texts>(texts)), ...);
}

constexpr std::array<std::string_view, 3> kDataVerbs = {"show", "stats", "check"};
constexpr std::array<const char*, 2> kExportWords = {"type", "dtype"};
constexpr double kCompareSecondsMax = 600;

}  // namespace

Api::Api(asio::io_context& context, const Root& root, Guard guard, UiSettings settings)
    : settings_(std::move(settings)),
      root_(root),
      guard_(std::move(guard)),
      verbs_(context, root),
      runs_(verbs_, root),
      chats_(context, verbs_),
      completions_(chats_, root) {}

std::span<const Api::Route> Api::routes() {
    static constexpr std::array kRoutes = {
        Route{"GET", "/api/about", &Api::about},
        Route{"GET", "/api/places", &Api::places},
        Route{"GET", "/api/schema", &Api::schema},
        Route{"GET", "/api/runs", &Api::list_runs},
        Route{"POST", "/api/runs", &Api::start_run},
        Route{"GET", "/api/runs/*", &Api::describe_run},
        Route{"GET", "/api/runs/*/*", &Api::read_run},
        Route{"POST", "/api/runs/*/resume", &Api::resume_run},
        Route{"POST", "/api/runs/*/stop", &Api::stop_run},
        Route{"POST", "/api/runs/*/save", &Api::save_run},
        Route{"POST", "/api/runs/*/export", &Api::export_run},
        Route{"POST", "/api/plan", &Api::plan},
        Route{"POST", "/api/data", &Api::data},
        Route{"POST", "/api/inspect", &Api::inspect},
        Route{"POST", "/api/chats", &Api::begin_chat},
        Route{"POST", "/api/chats/*", &Api::say},
        Route{"POST", "/api/chats/*/interrupt", &Api::interrupt_chat},
        Route{"DELETE", "/api/chats/*", &Api::end_chat},
        Route{"GET", "/v1/models", &Api::list_models},
        Route{"POST", "/v1/chat/completions", &Api::complete_chat},
    };
    return kRoutes;
}

bool Api::check(const HttpHead& head) {
    guard_.check(head, needs_token(head.path));
    Parts parts;
    bool is_known = !needs_token(head.path) && page_file(head.path);
    bool is_served = is_known && head.is_get();
    for (const Route& route : routes()) {
        if (!matches(route.pattern, head.path, parts)) continue;
        is_known = true;
        is_served = is_served || route.method == head.method;
    }
    if (!is_known) throw HttpRefusal(404, "path", "there is nothing at {}", head.path);
    if (!is_served) throw HttpRefusal(405, "method", "{} does nothing at {}", head.method, head.path);
    if (head.is_post()) Guard::check_content(head);
    return needs_token(head.path);
}

Task<> Api::serve(HttpExchange& exchange) {
    const HttpHead& head = exchange.head();
    Parts parts;
    for (const Route& route : routes()) {
        if (route.method != head.method || !matches(route.pattern, head.path, parts)) continue;
        co_await (this->*route.serve)(exchange, parts);
        co_return;
    }
    co_await show_file(exchange);
}

Task<> Api::show_file(HttpExchange& exchange) {
    const std::optional<PageFile> file = page_file(exchange.head().path);
    HttpReply reply;
    reply.type = file->type;
    reply.body = file->text;
    co_await exchange.send(std::move(reply));
}

std::string Api::hub_cache() const {
    return settings_.others.empty() ? "" : settings_.others.front();
}

Task<> Api::about(HttpExchange& exchange, Parts) {
    Json about;
    about["version"] = settings_.version;
    about["root"] = root_.folder();
    co_await exchange.send(reply_with(about));
}

Task<> Api::places(HttpExchange& exchange, Parts) {
    Json found = places_json(root_, hub_cache());
    const std::string text = co_await verbs_.schema_text();
    const Json schema = parse_json(text, "schema", ExitCode::internal);
    found["machines"] = schema["schema"]["properties"]["machine"].value("examples", Json::array());
    co_await exchange.send(reply_with(found));
}

Task<> Api::schema(HttpExchange& exchange, Parts) {
    HttpReply reply;
    reply.body = co_await verbs_.schema_text();
    co_await exchange.send(std::move(reply));
}

Task<> Api::list_runs(HttpExchange& exchange, Parts) {
    VerbResult printed = co_await runs_.list();
    co_await exchange.send(reply_with(std::move(printed)));
}

Task<> Api::describe_run(HttpExchange& exchange, Parts parts) {
    HttpReply reply = co_await runs_.describe(parts[0]);
    co_await exchange.send(std::move(reply));
}

Task<> Api::read_run(HttpExchange& exchange, Parts parts) {
    const auto from = exchange.head().query.find("from");
    const std::string byte = from == exchange.head().query.end() ? "" : from->second;
    HttpReply reply = co_await runs_.read(parts[0], parts[1], byte);
    co_await exchange.send(std::move(reply));
}

Task<> Api::start_run(HttpExchange& exchange, Parts) {
    Words words = words_of("train");
    co_await add_settings(exchange, words);
    co_await verbs_.answer(exchange, std::move(words), "run");
}

Task<> Api::resume_run(HttpExchange& exchange, Parts parts) {
    body_of(exchange);
    const std::string folder = co_await runs_.folder_to_change(parts[0]);
    co_await verbs_.answer(exchange, words_of("train", folder, "--resume"), "run");
}

Task<> Api::stop_run(HttpExchange& exchange, Parts parts) {
    body_of(exchange);
    HttpReply reply = co_await runs_.ask(parts[0], "stop");
    co_await exchange.send(std::move(reply));
}

Task<> Api::save_run(HttpExchange& exchange, Parts parts) {
    body_of(exchange);
    HttpReply reply = co_await runs_.ask(parts[0], "save");
    co_await exchange.send(std::move(reply));
}

Task<> Api::export_run(HttpExchange& exchange, Parts parts) {
    const Json body = body_of(exchange);
    std::string source = co_await runs_.folder_to_change(parts[0]);
    if (const double step = number_member(body, "step", -1); step >= 0) source += fmt::format(":{:.0f}", step);
    const std::string to = root_.checked(text_member(body, "to"), "to");
    Words words = words_of("export", source, "--to", to);
    for (const char* key : kExportWords) {
        const std::string word = plain_word(body, key);
        if (!word.empty()) add(words, std::string("--") + key, word);
    }
    if (flag_member(body, "merged")) add(words, "--merged", "base");
    if (flag_member(body, "overwrite")) add(words, "--overwrite");
    // Two writers of one target would remove each other's files.
    const std::string target = (std::filesystem::path(root_.folder()) / to / "").lexically_normal();
    std::erase_if(exports_, [](const auto& each) { return !each.second || !each.second->is_running(); });
    if (exports_.contains(target)) throw HttpRefusal(409, "to", "{} is being written", to);
    co_await verbs_.answer(exchange, std::move(words), "", &exports_[target]);
}

// The settings of a request's body, as words of a verb.
Task<> Api::add_settings(HttpExchange& exchange, Words& words) {
    const Json body = body_of(exchange);
    const Words settings = co_await verbs_.setting_words(body.value("settings", Json()));
    words.insert(words.end(), settings.begin(), settings.end());
}

Task<> Api::plan(HttpExchange& exchange, Parts) {
    const double seconds = std::min(number_member(body_of(exchange), "compare_seconds", 0), kCompareSecondsMax);
    Words words = words_of("plan", "--lanes");
    if (seconds > 0)
        add(words, "--compare-seconds", fmt::format("{:g}", seconds));
    else
        add(words, "--alone");
    co_await add_settings(exchange, words);
    co_await verbs_.answer(exchange, std::move(words));
}

Task<> Api::data(HttpExchange& exchange, Parts) {
    const Json body = body_of(exchange);
    const std::string what = text_member(body, "what", "show");
    if (std::ranges::find(kDataVerbs, what) == kDataVerbs.end())
        throw HttpRefusal(400, "what", "\"{}\" is not one of: {}", what, fmt::join(kDataVerbs, ", "));
    Words words = words_of("data", what);
    const double samples = std::clamp(number_member(body, "samples", 5), 1.0, 1000.0);
    if (what == "show") add(words, "--samples", fmt::format("{:.0f}", samples));
    co_await add_settings(exchange, words);
    co_await verbs_.answer(exchange, std::move(words));
}

Task<> Api::inspect(HttpExchange& exchange, Parts) {
    const std::string model = root_.checked(text_member(body_of(exchange), "model"), "model");
    VerbResult printed = co_await verbs_.result(words_of("inspect", model));
    co_await exchange.send(reply_with(std::move(printed)));
}

Task<> Api::begin_chat(HttpExchange& exchange, Parts) {
    const Json body = body_of(exchange);
    Words words = words_of("chat", "model=" + root_.checked(text_member(body, "model"), "model"));
    add(words, "--temperature", fmt::format("{:g}", number_member(body, "temperature", 0)));
    add(words, "--max-new-tokens", fmt::format("{:.0f}", number_member(body, "max_new_tokens", 1024)));
    if (const std::string file = text_member(body, "chat_template"); !file.empty())
        add(words, "chat_template=" + root_.checked(file, "chat_template"));
    const TakeEvent take = send_to(exchange);
    const std::string id = Chats::new_id();
    exchange.when_gone([this, id] { chats_.end(id); });
    co_await chats_.begin(id, std::move(words), text_member(body, "system"), take);
}

Task<> Api::say(HttpExchange& exchange, Parts parts) {
    const std::string line = chat_line_of(body_of(exchange));
    const TakeEvent take = send_to(exchange);
    exchange.when_gone([this, id = parts[0]] { chats_.interrupt(id); });
    co_await chats_.say(parts[0], line, take);
}

Task<> Api::interrupt_chat(HttpExchange& exchange, Parts parts) {
    body_of(exchange);
    chats_.is_busy(parts[0]);  // or 404
    chats_.interrupt(parts[0]);
    co_await exchange.send(reply_of(202));
}

Task<> Api::end_chat(HttpExchange& exchange, Parts parts) {
    chats_.is_busy(parts[0]);  // or 404
    chats_.end(parts[0]);
    co_await exchange.send(reply_of(204));
}

Task<> Api::list_models(HttpExchange& exchange, Parts) {
    const Json places = places_json(root_, hub_cache());
    co_await exchange.send(reply_with(openai_models(places["models"])));
}

Task<> Api::complete_chat(HttpExchange& exchange, Parts) {
    co_await completions_.answer(exchange);
}

}  // namespace windlass
