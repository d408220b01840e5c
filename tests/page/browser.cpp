#include "tests/page/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <map>

#include "base/json.h"
#include "tests/cli/process.h"

namespace windlass::page {
namespace {

using cli::clock_seconds;

constexpr double kCallSeconds = 20;  // for one command; a busy machine takes seconds to start the browser
constexpr int kCommandFile = 3, kAnswerFile = 4;

// Small, quick, and without a way out: the browser asks no server of its maker, and no name but 127.0.0.1 is resolved.
std::vector<std::string> browser_words(const std::string& program, const std::string& profile) {
    std::vector<std::string> words = {program,
                                      "--headless",
                                      "--remote-debugging-pipe",
                                      "--user-data-dir=" + profile,
                                      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                                      "--no-proxy-server",
                                      "--no-first-run",
                                      "--disable-background-networking",
                                      "--disable-component-update",
                                      "--disable-default-apps",
                                      "--disable-dev-shm-usage",
                                      "--disable-domain-reliability",
                                      "--disable-extensions",
                                      "--disable-features=OptimizationHints,MediaRouter,Translate",
                                      "--disable-gpu",
                                      "--disable-sync",
                                      "--disk-cache-size=1",
                                      "--force-device-scale-factor=1",
                                      "--hide-scrollbars",
                                      "--metrics-recording-only",
                                      "--mute-audio",
                                      "--password-store=basic"};
    if (::geteuid() == 0) words.emplace_back("--no-sandbox");  // it refuses to start as root with one
    words.emplace_back("about:blank");
    return words;
}

}  // namespace

struct Browser::Inner {
    std::map<int64_t, Json> answers;
    std::map<std::string, Listener> listeners;
};

std::string browser_program() {
    for (const char* name : {"chromium-headless-shell", "chromium"}) {
        std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "/usr/bin";
        for (size_t begin = 0; begin <= path.size();) {
            const size_t end = std::min(path.find(':', begin), path.size());
            const std::string program = fmt::format("{}/{}", path.substr(begin, end - begin), name);
            if (::access(program.c_str(), X_OK) == 0) return program;
            begin = end + 1;
        }
    }
    return "";
}

Browser& Browser::shared() {
    static Browser browser(browser_program());
    return browser;
}

Browser::Browser(const std::string& program) : inner_(std::make_unique<Inner>()) {
    std::vector<std::string> words = browser_words(program, profile_.path());
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "HOME=" + profile_.path(), "LANG=C.UTF-8"};
    std::vector<char*> word_list, environment_list;
    for (std::string& word : words) word_list.push_back(word.data());
    for (std::string& entry : environment) environment_list.push_back(entry.data());
    word_list.push_back(nullptr);
    environment_list.push_back(nullptr);
    std::array<int, 2> commands{}, answers{};
    if (::pipe2(commands.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0)
        throw BrowserError(fmt::format("pipe2: errno {}", errno));
    pid_ = ::fork();
    if (pid_ == 0) become(word_list.data(), environment_list.data(), commands[0], answers[1]);
    ::close(commands[0]);
    ::close(answers[1]);
    to_ = commands[1];
    from_ = answers[0];
}

// Between fork and exec. The processes of the browser are a group, which the destructor ends; they end with this
// program too if it dies before.
void Browser::become(char* const* words, char* const* environment, int commands, int answers) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // First out of the way of the two numbers, which either may have.
    const int in = ::fcntl(commands, F_DUPFD, kAnswerFile + 1), out = ::fcntl(answers, F_DUPFD, kAnswerFile + 1);
    ::dup2(in, kCommandFile);
    ::dup2(out, kAnswerFile);
    const int none = ::open("/dev/null", O_RDWR);
    for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(none, file);
    ::execve(words[0], words, environment);
    ::_exit(127);
}

Browser::~Browser() {
    ::close(to_);
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(from_);
}

void Browser::send(const std::string& message) {
    for (size_t done = 0; done < message.size();) {
        const ssize_t count = ::write(to_, message.data() + done, message.size() - done);
        if (count < 0) throw BrowserError(fmt::format("the browser has gone: errno {}", errno));
        done += static_cast<size_t>(count);
    }
}

bool Browser::read_for(int milliseconds) {
    pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, milliseconds) <= 0) return false;
    std::array<char, 65536> piece{};
    const ssize_t count = ::read(from_, piece.data(), piece.size());
    if (count <= 0) throw BrowserError("the browser has gone");
    unread_.append(piece.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = 0; (end = unread_.find('\0', begin)) != std::string::npos; begin = end + 1)
        take(unread_.substr(begin, end - begin));
    unread_.erase(0, begin);
    return true;
}

void Browser::take(const std::string& message) {
    Json json = parse_json(message, "the browser", ExitCode::internal);
    if (json.contains("id")) {
        const int64_t id = json["id"].get<int64_t>();
        inner_->answers[id] = std::move(json);
        return;
    }
    const auto listener = inner_->listeners.find(json.value("sessionId", ""));
    if (listener != inner_->listeners.end())
        listener->second(json["method"].get<std::string>(), json.value("params", Json::object()));
}

void Browser::listen(const std::string& session, Listener listener) {
    inner_->listeners[session] = std::move(listener);
}

void Browser::forget(const std::string& session) {
    inner_->listeners.erase(session);
}

void Browser::read_until(const std::function<bool()>& holds, double seconds, const std::string& wanted) {
    const double end = clock_seconds() + seconds;
    while (!holds()) {
        const double left = end - clock_seconds();
        if (left <= 0) throw BrowserError(fmt::format("after {} s: still waiting for {}", seconds, wanted));
        read_for(static_cast<int>(std::min(left, 1.0) * 1000) + 1);
    }
}

Json Browser::call(const std::string& method, const Json& params, const std::string& session) {
    const int64_t id = next_id_++;
    Json command = {{"id", id}, {"method", method}, {"params", params}};
    if (!session.empty()) command["sessionId"] = session;
    send(command.dump() + '\0');
    read_until([&] { return inner_->answers.contains(id); }, kCallSeconds, "the browser's answer to " + method);
    const Json answer = std::move(inner_->answers[id]);
    inner_->answers.erase(id);
    if (answer.contains("error")) throw BrowserError(fmt::format("{}: {}", method, answer["error"].dump()));
    return answer.at("result");
}

}  // namespace windlass::page
