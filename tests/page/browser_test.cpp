// The driver of the browser itself, on pages of its own.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "tests/cli/process.h"
#include "tests/page/needs_browser.h"
#include "tests/page/tab.h"

namespace windlass::page {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kForm = R"(data:text/html,<title>A form</title>
<input id=name value=old><button id=go onclick="document.title = document.getElementById('name').value">Go</button>
<button id=off disabled>Off</button><p id=far style="margin-top: 3000px">far</p>)";

class BrowserDriver : public testing::Test {
  protected:
    void SetUp() override { WINDLASS_NEEDS_BROWSER(); }
};

TEST_F(BrowserDriver, ClicksTypesAndEvaluates) {
    Tab page(Browser::shared());
    page.open(kForm);
    page.type("#name", "new <text>");
    page.click("#go");
    EXPECT_EQ(page.text("document.title"), "new <text>");
    EXPECT_EQ(page.evaluate("new Promise((done) => setTimeout(() => done({a: [1, null]}), 5))").dump(),
              R"({"a":[1,null]})");
    page.press("Tab", true);
    EXPECT_EQ(page.text("document.activeElement.id"), "name");
    page.press("Tab");
    page.press("Enter");
    page.click("#far");
    EXPECT_THAT(page.console(), IsEmpty());
    EXPECT_THAT(page.requests(), ElementsAre(HasSubstr("A form")));
}

TEST_F(BrowserDriver, SaysWhatItWaitedFor) {
    Tab page(Browser::shared());
    page.open(kForm);
    const auto said = [](const std::function<void()>& work) -> std::string {
        try {
            work();
        } catch (const BrowserError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(said([&] { page.wait_until("1 > 2", 0.1); }), HasSubstr("after 0.1 s this is still not so: 1 > 2"));
    EXPECT_THAT(said([&] { page.evaluate("nothing.at.all"); }), HasSubstr("ReferenceError"));
    EXPECT_THAT(said([&] { page.open("http://example.org/"); }), HasSubstr("ERR_NAME_NOT_RESOLVED"));
}

TEST_F(BrowserDriver, KeepsMessagesExceptionsAndAddresses) {
    Tab page(Browser::shared());
    page.open(R"(data:text/html,<script>console.log("a", 1); setTimeout(() => { throw new Error("b"); });
fetch("http://127.0.0.1:1/c").catch(() => { document.title = "failed"; });</script>)");
    page.wait_until("document.title == 'failed'");
    EXPECT_THAT(page.console(), testing::Contains(HasSubstr("log: \"a\" 1")));
    EXPECT_THAT(page.console(), testing::Contains(HasSubstr("Error: b")));
    EXPECT_THAT(page.requests(), testing::Contains("http://127.0.0.1:1/c"));
}

TEST_F(BrowserDriver, ShowsWidthsAndColors) {
    Tab page(Browser::shared());
    page.open("data:text/html,<p>text");
    page.set_width(360);
    EXPECT_EQ(page.evaluate("innerWidth"), 360);
    page.set_dark(true);
    EXPECT_EQ(page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"), true);
    page.set_dark(false);
    EXPECT_EQ(page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"), false);
    const TempFolder folder;
    page.screenshot(folder / "page.png");
    EXPECT_GT(std::filesystem::file_size(folder / "page.png"), 100u);
}

// Processes of a group that still run: dead ones are gone as soon as they are collected.
int running_in(pid_t group) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "stat");
        std::string line;
        if (!std::getline(file, line)) continue;
        std::istringstream words(line.substr(line.rfind(')') + 1));
        char state = 0;
        pid_t parent = 0, its_group = 0;
        words >> state >> parent >> its_group;
        count += its_group == group && state != 'Z' && state != 'X';
    }
    return count;
}

TEST_F(BrowserDriver, LeavesNoProcess) {
    pid_t group = 0;
    {
        Browser browser(browser_program());
        group = browser.id();
        Tab page(browser);
        EXPECT_GT(running_in(group), 1);
    }
    EXPECT_TRUE(cli::wait_until([&] { return running_in(group) == 0; }, 10));
}

}  // namespace
}  // namespace windlass::page
