// A run from the page: started by clicks, watched, stopped, resumed, exported, talked to. Nothing that happens to the
// page or its server changes it.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "base/json.h"
#include "tests/page/page_fixture.h"

namespace windlass::page {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Points of the curve of the loss.
constexpr const char* kPoints =
    "(() => { const chart = Chart.getChart(document.querySelector('[data-name=loss] canvas'));"
    "return chart ? chart.data.datasets[0].data.length : 0; })()";

class PageRun : public PageTest {
  protected:
    // What the page says of a run that stands still.
    std::string state() { return named("state") + "\n" + named("step") + "\n" + named("loss"); }

    void wait_for_state(const std::string& state, double seconds = 60) {
        page_->wait_until(fmt::format("document.querySelector('.run-view [data-name=state]')?.innerText == {} && "
                                      "document.querySelector('[data-name=step]')?.innerText",
                                      quoted(state)),
                          seconds);
    }

    pid_t trainer(const std::string& folder) const {
        const std::string events = cli::read_bytes(sandbox_ / folder + "/events.jsonl");
        const Json begin = parse_json(events.substr(0, events.find('\n')), "events", ExitCode::internal);
        return begin.at("pid").get<pid_t>();
    }

    // Lets the run in this folder train `more` steps at least, and stops its process there, so that what is shown can
    // be compared. Returns the last step.
    int64_t advance(const std::string& folder, size_t more) {
        const auto steps = [&] { return cli::metrics_of(sandbox_ / folder).size(); };
        const size_t before = steps();
        if (before > 0) ::kill(trainer(folder), SIGCONT);
        EXPECT_TRUE(cli::wait_until([&] { return steps() >= before + more; }, 60)) << ui_->process().messages();
        ::kill(trainer(folder), SIGSTOP);
        return cli::metrics_of(sandbox_ / folder).back().at("step").get<int64_t>();
    }

    // Until the page has drawn this step.
    void wait_for_step(int64_t step) {
        page_->wait_until(
            fmt::format("document.querySelector('[data-name=step]')?.innerText.replace(/[^0-9 ]/g, '')"
                        ".trim().split(' ')[0] == '{}' && {} == {}",
                        step, kPoints, step));
    }
};

TEST_F(PageRun, IsStartedByClicksAndOutlivesPageAndServer) {
    constexpr int64_t kSteps = 600;
    open();
    page_->click("#nav a[data-view=new]");
    page_->wait_until("document.querySelector('#field-model')");
    type_settings(settings("a", kSteps));
    EXPECT_THAT(page_->text("document.querySelector('[data-name=\"run.yaml\"]').innerText"),
                HasSubstr("train_data: [\"chats.jsonl\"]"));
    page_->click("[data-action=start]");
    const int64_t first = advance("a", 1);
    ASSERT_LT(first, kSteps / 2);
    page_->wait_until("location.hash.startsWith('#/run/')", 30);
    wait_for_state("training");
    wait_for_step(first);
    const int64_t last = advance("a", 10);
    ASSERT_LT(last, kSteps);
    wait_for_step(last);  // the curve has grown

    const std::string before = state(), view = page_->text("location.hash");
    page_->reload();
    wait_for_state("training");
    EXPECT_EQ(state(), before);
    EXPECT_EQ(page_->text("location.hash"), view);
    wait_for_step(last);
    expect_quiet();

    ui_->restart();
    page_->open(ui_->address());
    page_->click(fmt::format("[data-run=\"{}\"] [data-action=open]", view.substr(6)));
    wait_for_state("training");
    EXPECT_EQ(state(), before);

    ASSERT_EQ(::kill(trainer("a"), SIGCONT), 0);
    wait_for_state("done");
    wait_for_step(kSteps);
    cli::must_succeed(train(settings("b", kSteps)));
    EXPECT_EQ(cli::read_bytes(sandbox_ / "a/final/model.safetensors"),
              cli::read_bytes(sandbox_ / "b/final/model.safetensors"));
}

TEST_F(PageRun, StopsAndResumes) {
    open();
    Json endless = settings("a", 10000000);
    endless["save_steps"] = nullptr;
    const Answer begun = ui_->post("/api/runs", {{"settings", endless}});
    ASSERT_EQ(events_of(begun).back().at("event"), "run") << begun.body;
    go_to_run("a");
    wait_for_state("training");
    for (int i = 0; i < 2; ++i) {
        page_->click("[data-action=stop]");
        wait_for_state("stopped");
        const size_t steps = cli::metrics_of(sandbox_ / "a").size();
        EXPECT_GT(steps, 0u);
        if (i != 0) break;
        page_->click("[data-action=resume]");
        wait_for_state("training");
        EXPECT_TRUE(cli::wait_until([&] { return cli::metrics_of(sandbox_ / "a").size() > steps; }, 30));
    }
    expect_quiet();
}

TEST_F(PageRun, IsExported) {
    cli::must_succeed(train(settings("a", 2)));
    open();
    page_->click("[data-action=export]");
    page_->wait_until("document.querySelector('#export-to')?.checkVisibility()");
    page_->type("#export-to", "out/a.gguf");
    page_->click("[data-action=export-start]");
    page_->wait_until("document.querySelector('[data-name=export-done]')", 30);
    EXPECT_THAT(cli::read_bytes(sandbox_ / "out/a.gguf"), testing::StartsWith("GGUF"));
    expect_quiet();
}

TEST_F(PageRun, IsTalkedTo) {
    cli::must_succeed(train(settings("a", 150)));
    open();
    page_->click("[data-run] [data-action=talk]");
    page_->type("#question", "who?");
    page_->click("[data-action=send]");
    const auto answers = [&](const char* last, int count) {
        page_->wait_until(fmt::format("[...document.querySelectorAll('[data-role=assistant][data-done=true] pre')]"
                                      ".map((pre) => pre.innerText).join('|').endsWith({}) && "
                                      "document.querySelectorAll('[data-role=assistant]').length == {}",
                                      quoted(last), count),
                          30);
    };
    answers("I am Winch.", 1);
    page_->click("[data-action=reset]");
    page_->wait_until("!document.querySelector('[data-role=assistant], [data-action=send]:disabled')");
    page_->type("#question", "bye");
    page_->press("Enter");
    answers("See you", 1);
    expect_quiet();
    // The model's process ends when the page is left.
    EXPECT_FALSE(processes_in(sandbox_.path()).empty());
    page_->open("about:blank");
    EXPECT_TRUE(cli::wait_until([&] { return processes_in(sandbox_.path()).empty(); }, 30));
}

}  // namespace
}  // namespace windlass::page
