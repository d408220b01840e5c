#include "tests/page/ui.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>

#include "base/json.h"

namespace windlass::page {
namespace {

namespace fs = std::filesystem;

constexpr double kStartSeconds = 30;

}  // namespace

cli::Command Ui::command(const cli::Sandbox& sandbox, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"ui", "--root", sandbox.path()};
    words.insert(words.end(), more.begin(), more.end());
    cli::Command command = sandbox.windlass(words);
    command.may_open_sockets = true;
    command.seconds_max = 600;
    return command;
}

Ui::Ui(const cli::Sandbox& sandbox, const std::vector<std::string>& more,
       const std::map<std::string, std::string>& environment)
    : sandbox_(sandbox), command_(command(sandbox, more)) {
    for (const auto& [name, value] : environment) command_.environment[name] = value;
    start();
}

void Ui::start() {
    process_ = std::make_unique<cli::Process>(command_);
    static const std::regex kLine("(http://127\\.0\\.0\\.1:([0-9]+)/#([0-9a-f]{32}))\n");
    std::smatch found;
    std::string printed;
    const bool is_up = cli::wait_until(
        [&] { return std::regex_search(printed = process_->output(), found, kLine) || !process_->is_running(); },
        kStartSeconds);
    if (!is_up || found.empty()) {
        process_->send(SIGKILL);
        throw std::runtime_error("windlass ui prints no address: " + cli::describe(process_->wait()));
    }
    address_ = found[1];
    port_ = std::stoi(found[2]);
    token_ = found[3];
}

void Ui::restart() {
    process_->send(SIGKILL);
    process_->wait();
    start();
}

Ui::~Ui() {
    process_.reset();
    // Killed ones are collected by others: they are gone when they have no folder any more.
    cli::wait_until(
        [&] {
            const std::vector<pid_t> left = processes_in(sandbox_.path());
            for (const pid_t process : left) ::kill(process, SIGKILL);
            return left.empty();
        },
        10);
}

std::string Ui::origin() const {
    return fmt::format("http://127.0.0.1:{}", port_);
}

Request Ui::request(const std::string& method, const std::string& path, const std::string& body) const {
    Request request{.method = method,
                    .path = path,
                    .headers = {{"Host", fmt::format("127.0.0.1:{}", port_)},
                                {"Authorization", "Bearer " + token_},
                                {"Connection", "close"}},
                    .body = body};
    if (!body.empty()) request.headers["Content-Type"] = "application/json";
    return request;
}

Answer Ui::ask(const Request& request) const {
    const std::optional<Answer> answer = page::ask(port_, request);
    EXPECT_TRUE(answer) << request.method << " " << request.path << ": no answer\n"
                        << (process_->is_running() ? process_->messages() : cli::describe(process_->wait()));
    return answer.value_or(Answer{});
}

Answer Ui::post(const std::string& path, const Json& body) const {
    return ask(request("POST", path, body.dump()));
}

Json Ui::get_json(const std::string& path) const {
    const Answer answer = get(path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return parse_json(answer.body, path, ExitCode::internal);
}

std::vector<Json> events_of(const Answer& answer) {
    std::vector<Json> events;
    std::istringstream lines(answer.body);
    for (std::string line; std::getline(lines, line);) events.push_back(parse_json(line, "event", ExitCode::internal));
    return events;
}

std::vector<pid_t> processes_in(const std::string& folder) {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::error_code ignored;  // it may end meanwhile
        const std::string works_in = fs::read_symlink(entry.path() / "cwd", ignored).string();
        if (works_in == folder || works_in.starts_with(folder + "/")) found.push_back(std::stoi(name));
    }
    return found;
}

std::set<std::string> sockets_of(pid_t process) {
    constexpr std::string_view kHead = "socket:[";
    std::set<std::string> sockets;
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process))) {
        std::error_code ignored;  // it may be closed meanwhile
        const std::string link = fs::read_symlink(entry.path(), ignored).string();
        if (link.starts_with(kHead)) sockets.insert(link.substr(kHead.size(), link.size() - kHead.size() - 1));
    }
    return sockets;
}

int64_t memory_of(pid_t process, const std::string& name) {
    std::ifstream status(fmt::format("/proc/{}/status", process));
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
    return 0;
}

}  // namespace windlass::page
