// How `windlass ui` begins and ends.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/json.h"
#include "tests/page/ui.h"

namespace windlass::page {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Local addresses on which the process listens, as in /proc: "0100007F:1EC5".
std::vector<std::string> listens_on(pid_t process, const char* table) {
    const std::set<std::string> sockets = sockets_of(process);
    std::vector<std::string> found;
    std::ifstream lines(fmt::format("/proc/{}/net/{}", process, table));
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
        std::istringstream words(line);
        std::string number, local, remote, state, skipped, inode;
        words >> number >> local >> remote >> state >> skipped >> skipped >> skipped >> skipped >> skipped >> inode;
        if (state == "0A" && sockets.contains(inode)) found.push_back(local);
    }
    return found;
}

void expect_one_line(const std::string& text) {
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(ServerStart, ListensOnTheLoopbackAddressAlone) {
    const cli::Sandbox sandbox;
    Ui ui(sandbox);
    EXPECT_THAT(listens_on(ui.process().id(), "tcp"), testing::ElementsAre(fmt::format("0100007F:{:04X}", ui.port())));
    EXPECT_THAT(listens_on(ui.process().id(), "tcp6"), testing::IsEmpty());
    EXPECT_EQ(ui.process().output(), ui.address() + "\n");
}

TEST(ServerStart, TakesTheNextPortIfOneIsTaken) {
    const cli::Sandbox sandbox;
    const Ui first(sandbox);
    const Ui second(sandbox);
    EXPECT_NE(first.port(), second.port());
    EXPECT_NE(first.token(), second.token());
    for (const Ui* ui : {&first, &second}) EXPECT_EQ(ui->get("/api/about").status, 200);
    Request request = second.request("GET", "/api/about");
    request.headers["Authorization"] = "Bearer " + first.token();
    EXPECT_EQ(second.ask(request).status, 401);
}

TEST(ServerStart, RefusesAGivenPortThatIsTaken) {
    const cli::Sandbox sandbox;
    const Ui first(sandbox);
    const cli::Finished refused = cli::run(Ui::command(sandbox, {"--port", std::to_string(first.port())}));
    EXPECT_NE(refused.code, 0);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, AllOf(HasSubstr(std::to_string(first.port())), HasSubstr("Try: ")));
    expect_one_line(refused.err);
    for (const char* port : {"65536", "-1", "x", "80x"}) {
        const cli::Finished wrong = cli::run(Ui::command(sandbox, {"--port", port}));
        EXPECT_EQ(wrong.code, cli::kUsage) << port << cli::describe(wrong);
    }
}

TEST(ServerStart, UsesTheGivenPort) {
    const cli::Sandbox sandbox;
    int port = 0;
    { port = Ui(sandbox).port(); }
    const Ui again(sandbox, {"--port", std::to_string(port)});
    EXPECT_EQ(again.port(), port);
}

TEST(ServerStart, RefusesARootThatIsNoFolder) {
    const cli::Sandbox sandbox;
    cli::write_bytes(sandbox / "file", "");
    for (const char* name : {"missing", "file"}) {
        cli::Command command = sandbox.windlass({"ui", "--root", sandbox / name});
        command.may_open_sockets = true;
        const cli::Finished refused = cli::run(command);
        EXPECT_NE(refused.code, 0) << cli::describe(refused);
        EXPECT_EQ(refused.out, "");
        EXPECT_THAT(refused.err, AllOf(HasSubstr(sandbox / name), HasSubstr("Try: ")));
        expect_one_line(refused.err);
    }
}

TEST(ServerStart, SaysOverSshHowToReachIt) {
    const cli::Sandbox sandbox;
    Ui ui(sandbox, {}, {{"SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22"}});
    const auto says = [](Ui& any, const std::string& text) {
        return (any.process().output() + any.process().messages()).find(text) != std::string::npos;
    };
    // The address comes first; a request is answered after all that is said.
    EXPECT_EQ(ui.get("/api/about").status, 200);
    EXPECT_TRUE(says(ui, fmt::format("-L {0}:127.0.0.1:{0} ", ui.port()))) << ui.process().messages();
    EXPECT_TRUE(says(ui, "ssh ")) << ui.process().messages();
    Ui here(sandbox);
    EXPECT_EQ(here.get("/api/about").status, 200);
    EXPECT_FALSE(says(here, "ssh")) << here.process().messages();
}

TEST(ServerEnd, LeavesRunsAlone) {
    cli::Sandbox sandbox;
    sandbox.model();
    sandbox.token_rows();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        Ui ui(sandbox);
        const Answer begun = ui.post("/api/runs", {{"settings",
                                                    {{"model", "llama_tiny"},
                                                     {"train_data", {"rows.jsonl"}},
                                                     {"output_dir", "out"},
                                                     {"overwrite", true},
                                                     {"max_steps", 1000000},
                                                     {"max_length", 32},
                                                     {"save_steps", nullptr},
                                                     {"threads", 1}}}});
        ASSERT_EQ(begun.status, 200) << begun.body;
        EXPECT_EQ(events_of(begun).back().at("event"), "run") << begun.body;
        ui.process().send(signal);
        const cli::Finished ended = ui.process().wait();
        EXPECT_EQ(ended.signal, signal) << cli::describe(ended);  // as every verb that trains nothing
        const size_t steps = cli::metrics_of(sandbox.out()).size();
        EXPECT_TRUE(cli::wait_until([&] { return cli::metrics_of(sandbox.out()).size() > steps + 5; }, 60));
        cli::write_bytes(sandbox.out() + "/stop", "");
        EXPECT_TRUE(cli::wait_until([&] { return processes_in(sandbox.path()).empty(); }, 60));
        const Json status = cli::json_of(sandbox.windlass({"status", sandbox.out(), "--json"}));
        EXPECT_EQ(status.at("state"), "stopped") << status.dump();
    }
}

// What a client asked for ends with the client.
TEST(ServerEnd, OfAStreamEndsItsVerb) {
    cli::Sandbox sandbox;
    sandbox.model();
    sandbox.token_rows();
    const Ui ui(sandbox);
    {
        Connection connection(ui.port());
        const Json settings = {{"model", "llama_tiny"}, {"train_data", {"rows.jsonl"}}, {"max_length", 32}};
        connection.send(
            ui.request("POST", "/api/plan", Json({{"settings", settings}, {"compare_seconds", 600}}).dump()).bytes());
        EXPECT_TRUE(cli::wait_until([&] { return !processes_in(sandbox.path()).empty(); }, 30));
    }
    EXPECT_TRUE(cli::wait_until([&] { return processes_in(sandbox.path()).empty(); }, 30));
}

}  // namespace
}  // namespace windlass::page
