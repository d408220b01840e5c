// What the server refuses, on every route, and what every answer of it says to a browser.
#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/page/ui.h"

namespace windlass::page {
namespace {

using testing::HasSubstr;

constexpr const char* kUnknown = "ffffffffffffffff";  // an id of nothing
constexpr size_t kBodyMax = 1 << 20, kHeadersMax = 16 << 10;

struct Route {
    const char* method;
    const char* path;
    const char* body = "";  // that it may have
    bool is_api() const { return std::string_view(path).starts_with("/api") || is_v1(); }
    bool is_v1() const { return std::string_view(path).starts_with("/v1"); }
    bool names_chat() const { return std::string_view(path).find("CHAT") != std::string_view::npos; }
    bool is_post() const { return std::string_view(method) == "POST"; }
};

constexpr Route kRoutes[] = {
    {"GET", "/"},
    {"GET", "/chart.js"},
    {"GET", "/api/about"},
    {"GET", "/api/places"},
    {"GET", "/api/schema"},
    {"GET", "/api/runs"},
    {"GET", "/api/runs/RUN"},
    {"GET", "/api/runs/RUN/metrics?from=0"},
    {"GET", "/api/runs/RUN/events?from=0"},
    {"GET", "/api/runs/RUN/samples?from=0"},
    {"GET", "/api/runs/RUN/log?from=0"},
    {"POST", "/api/runs", R"({"settings":{}})"},
    {"POST", "/api/runs/RUN/resume", "{}"},
    {"POST", "/api/runs/RUN/stop", "{}"},
    {"POST", "/api/runs/RUN/save", "{}"},
    {"POST", "/api/runs/RUN/export", R"({"to":"x"})"},
    {"POST", "/api/plan", R"({"settings":{}})"},
    {"POST", "/api/data", R"({"what":"show","settings":{}})"},
    {"POST", "/api/inspect", R"({"model":"llama_tiny"})"},
    {"POST", "/api/chats", R"({"model":"llama_tiny"})"},
    {"POST", "/api/chats/CHAT", R"({"content":"x"})"},
    {"POST", "/api/chats/CHAT/interrupt", "{}"},
    {"DELETE", "/api/chats/CHAT"},
    {"GET", "/v1/models"},
    {"POST", "/v1/chat/completions", R"({"model":"llama_tiny","messages":[]})"},
};

// One thing that is wrong with an otherwise good request.
struct Fault {
    const char* name;
    int status;
    std::function<void(Request&, int port)> make;
    std::function<bool(const Route&)> holds_for = [](const Route&) { return true; };
};

std::function<void(Request&, int)> header(const std::string& name, const std::string& value) {
    return [=](Request& request, int) { request.headers[name] = value; };
}

bool is_api(const Route& route) {
    return route.is_api();
}

bool is_post(const Route& route) {
    return route.is_post();
}

std::vector<Fault> faults() {
    const std::string wrong(32, '0');
    return {
        {"a host of another name", 421,
         [](Request& request, int port) { request.headers["Host"] = fmt::format("evil.example:{}", port); }},
        {"a host with another port", 421, header("Host", "127.0.0.1:1")},
        {"a host without a port", 421, header("Host", "127.0.0.1")},
        {"another address of this machine", 421,
         [](Request& request, int port) { request.headers["Host"] = fmt::format("127.0.0.2:{}", port); }},
        {"a page of another origin", 403, header("Origin", "http://evil.example"), is_api},
        {"a page of another port", 403, header("Origin", "http://127.0.0.1:1"), is_api},
        {"a page without an origin", 403, header("Origin", "null"), is_api},
        {"cross-site", 403, header("Sec-Fetch-Site", "cross-site"), is_api},
        {"same-site", 403, header("Sec-Fetch-Site", "same-site"), is_api},
        {"no token", 401, header("Authorization", ""), is_api},
        {"a wrong token", 401, header("Authorization", "Bearer " + wrong), is_api},
        {"an empty token", 401, header("Authorization", "Bearer "), is_api},
        {"the beginning of the token", 401,
         [](Request& request, int) { request.headers["Authorization"].resize(7 + 31); }, is_api},
        {"the token and more", 401, [](Request& request, int) { request.headers["Authorization"] += "0"; }, is_api},
        {"the token by another scheme", 401,
         [](Request& request, int) { request.headers["Authorization"].replace(0, 6, "Basic"); }, is_api},
        {"another method", 405, [](Request& request, int) { request.method = "PATCH"; }},
        {"a question before a request of another site", 405, [](Request& request, int) { request.method = "OPTIONS"; }},
        {"a form", 415, header("Content-Type", "application/x-www-form-urlencoded"), is_post},
        {"text", 415, header("Content-Type", "text/plain"), is_post},
        {"no type", 415, header("Content-Type", ""), is_post},
        {"a body of more than 1 MiB", 413,
         [](Request& request, int) { request.body = '"' + std::string(kBodyMax, 'x') + '"'; }, is_post},
        {"headers of more than 16 KiB", 431, header("X-Long", std::string(kHeadersMax, 'x'))},
        {"half of an object", 400, [](Request& request, int) { request.body = "{"; }, is_post},
        {"a list", 400, [](Request& request, int) { request.body = "[]"; }, is_post},
        {"a text", 400, [](Request& request, int) { request.body = "\"x\""; }, is_post},
        {"nothing", 400,
         [](Request& request, int) {
             request.body = "";
             request.headers["Content-Length"] = "0";
         },
         is_post},
        {"a key twice", 400, [](Request& request, int) { request.body = R"({"a":1,"a":2})"; }, is_post},
        {"bytes that are no text", 400, [](Request& request, int) { request.body = "{\"\xff\":1}"; }, is_post},
    };
}

void expect_headers_of_security(const Answer& answer) {
    EXPECT_EQ(answer.header("content-security-policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
              "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(answer.header("referrer-policy"), "no-referrer");
    EXPECT_EQ(answer.header("cross-origin-resource-policy"), "same-origin");
    EXPECT_EQ(answer.header("cross-origin-opener-policy"), "same-origin");
    EXPECT_NE(answer.header("content-type"), answer.status == 204 ? "x" : "");
    for (const auto& [name, value] : answer.headers) {
        EXPECT_FALSE(name.starts_with("access-control-")) << name << ": " << value;
        EXPECT_NE(name, "set-cookie");
    }
}

void expect_error_object(const Answer& answer) {
    const Json error = parse_json(answer.body, "body", ExitCode::internal).at("error");
    for (const char* key : {"code", "kind", "place", "text", "tries"}) EXPECT_TRUE(error.contains(key)) << answer.body;
    EXPECT_NE(error.value("text", ""), "");
}

class Server : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        sandbox_ = new cli::Sandbox;
        cli::must_succeed(sandbox_->train(sandbox_->training()));
        ui_ = new Ui(*sandbox_);
        id_ = ui_->get_json("/api/runs").at("runs").at(0).at("run_id").get<std::string>();
    }
    static void TearDownTestSuite() {
        delete ui_;
        delete sandbox_;
    }

    static Request good(const Route& route) {
        std::string path = route.path;
        for (const auto& [word, id] : {std::pair<std::string, std::string>{"RUN", id_}, {"CHAT", kUnknown}})
            if (const size_t at = path.find(word); at != std::string::npos) path.replace(at, word.size(), id);
        return ui_->request(route.method, path, route.body);
    }

    static cli::Sandbox* sandbox_;
    static Ui* ui_;
    static std::string id_;
};

cli::Sandbox* Server::sandbox_ = nullptr;
Ui* Server::ui_ = nullptr;
std::string Server::id_;

TEST_F(Server, RefusesEveryFaultOnEveryRoute) {
    ASSERT_NE(id_, "");
    int count = 0;
    for (const Route& route : kRoutes)
        for (const Fault& fault : faults()) {
            if (!fault.holds_for(route)) continue;
            SCOPED_TRACE(fmt::format("{} {}: {}", route.method, route.path, fault.name));
            Request request = good(route);
            fault.make(request, ui_->port());
            const Answer answer = ui_->ask(request);
            // It may say first that there is no such conversation.
            const bool is_unknown = fault.status == 400 && route.names_chat() && answer.status == 404;
            EXPECT_TRUE(answer.status == fault.status || is_unknown) << answer.status << " " << answer.body;
            expect_headers_of_security(answer);
            if (route.is_api() && !route.is_v1() && answer.status >= 400) expect_error_object(answer);
            ++count;
        }
    EXPECT_GT(count, 400);
    EXPECT_TRUE(ui_->process().is_running());
    EXPECT_EQ(page::processes_in(sandbox_->path()).size(), 0u) << "a refused request started a verb";
}

TEST_F(Server, KnowsNoOtherRoute) {
    for (const char* path : {"/api",
                             "/api/",
                             "/api/nothing",
                             "/v1/nothing",
                             "/nothing.js",
                             "/index.html/",
                             "/ui",
                             "/api/runs/ffffffffffffffff",
                             "/api/runs/ffffffffffffffff/metrics?from=0",
                             "/api/runs/RUN/run.yaml",
                             "/api/runs/RUN/metrics/x",
                             "/api/runs/",
                             "//",
                             "/.",
                             "/..",
                             "/%2e%2e/%2e%2e/etc/passwd",
                             "/../../../../etc/passwd",
                             "/..%2f..%2fetc/passwd",
                             "/api/runs/..%2f..%2fetc/log",
                             "/api/runs/%2e%2e/log",
                             "/api/runs/../about",
                             "/%00",
                             "/chart.js%00.html"}) {
        SCOPED_TRACE(path);
        const Answer answer = ui_->ask(good({.method = "GET", .path = path}));
        EXPECT_EQ(answer.status, 404) << answer.body;
        expect_headers_of_security(answer);
        EXPECT_THAT(answer.body, testing::Not(HasSubstr("root:")));
    }
    for (const char* path : {"/api/runs/ffffffffffffffff/stop", "/api/runs/ffffffffffffffff/resume",
                             "/api/chats/ffffffffffffffff/interrupt"})
        EXPECT_EQ(ui_->ask(good({.method = "POST", .path = path, .body = "{}"})).status, 404) << path;
    EXPECT_EQ(ui_->ask(good({.method = "DELETE", .path = "/api/chats/CHAT"})).status, 404);
}

TEST_F(Server, AnswersItsOwnPage) {
    for (const Route& route : kRoutes) {
        if (route.is_post() || route.names_chat()) continue;
        SCOPED_TRACE(route.path);
        for (const std::string& name : {std::string("127.0.0.1"), std::string("localhost")}) {
            Request request = good(route);
            request.headers["Host"] = fmt::format("{}:{}", name, ui_->port());
            request.headers["Origin"] = fmt::format("http://{}:{}", name, ui_->port());
            request.headers["Sec-Fetch-Site"] = "same-origin";
            const Answer answer = ui_->ask(request);
            EXPECT_EQ(answer.status, 200) << answer.body;
            expect_headers_of_security(answer);
        }
    }
    Request bare = ui_->request("GET", "/");
    bare.headers.erase("Authorization");
    EXPECT_EQ(ui_->ask(bare).status, 200) << "the page itself needs no token";
    EXPECT_THAT(ui_->ask(bare).header("content-type"), HasSubstr("text/html"));
}

TEST_F(Server, KeepsAConnectionForMoreRequests) {
    Connection connection(ui_->port());
    Request request = ui_->request("GET", "/api/about");
    request.headers.erase("Connection");
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(connection.send(request.bytes()));
        const std::optional<Answer> answer = connection.read();
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->status, 200);
    }
}

TEST_F(Server, ReadsFilesOfRunsByParts) {
    const std::string path = fmt::format("/api/runs/{}/metrics?from=", id_);
    const Answer all = ui_->get(path + "0");
    EXPECT_EQ(all.body, cli::read_bytes(sandbox_->out() + "/metrics.jsonl"));
    EXPECT_EQ(all.header("x-start-byte"), "0");
    EXPECT_EQ(all.header("x-next-byte"), std::to_string(all.body.size()));
    const size_t line = all.body.find('\n') + 1;
    EXPECT_EQ(ui_->get(path + std::to_string(line)).body, all.body.substr(line));
    EXPECT_EQ(ui_->get(path + std::to_string(all.body.size())).body, "");
    // Of a file that is shorter than what the page has read, everything.
    const Answer again = ui_->get(path + "1000000");
    EXPECT_EQ(again.body, all.body);
    EXPECT_EQ(again.header("x-start-byte"), "0");
    for (const char* from : {"x", "1e3", "99999999999999999999", "0x10"})
        EXPECT_EQ(ui_->get(path + from).status, 400) << from;
}

}  // namespace
}  // namespace windlass::page
