// How the page looks and is reached: at four widths, in light and dark, by the keyboard alone. looks.js measures.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "tests/page/page_fixture.h"
#include "tests/place.h"

namespace windlass::page {
namespace {

class PageLooks : public PageTest {
  protected:
    PageLooks() : looks_(cli::read_bytes(source_dir() + "/tests/page/looks.js")) {
        while (looks_.ends_with('\n') || looks_.ends_with(';')) looks_.pop_back();
    }

    void SetUp() override {
        PageTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        Json all = settings("a", 40);
        all["eval_data"] = Json::array({"chats.jsonl"});
        all["eval_steps"] = 10;
        all["sample_prompts"] = Json::array({"who?"});
        all["sample_steps"] = 20;
        all["save_steps"] = 20;
        cli::must_succeed(train(all));
        all["output_dir"] = "a-folder-with-a-name-that-is-so-long-that-it-does-not-fit-into-any-column/of-a-page";
        cli::must_succeed(train(all));
        open();
    }

    // Shows a view with everything that can be unfolded.
    void show(const std::string& name) {
        if (name == "runs") go("#/runs", "[data-run]");
        if (name == "run") {
            go_to_run("a");
            page_->wait_until("document.querySelector('[data-overlay]')");
        }
        if (name == "talk") {
            go("#/talk", "#talk-first");
            page_->type("#talk-first", "a/final");
            page_->type("#question", "who?");
            page_->click("[data-action=send]");
            page_->wait_until("document.querySelector('[data-role=assistant][data-done=true]')", 30);
        }
        if (name == "new") {
            go("#/new", "#field-model");
            type_settings(settings("b", 40));
            page_->click("#compare");
            page_->click("[data-action=plan]");
            page_->wait_until("document.querySelector('[data-name=plan]') || document.querySelector('#plan .part > *')",
                              30);
            page_->wait_until("document.querySelector('[data-name=plan-status]').hidden", 30);
            page_->click("[data-action=rows]");
            page_->wait_until("document.querySelector('[data-name=stats]')", 30);
        }
        page_->wait_until("!document.querySelector('#main .busy:not([hidden])')?.checkVisibility()", 30);
        page_->evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })");
    }

    std::vector<std::string> faults(const std::string& function) {
        return page_->evaluate(fmt::format("({}).{}()", looks_, function)).get<std::vector<std::string>>();
    }

    // Only if a person wants to look.
    void write_picture(const std::string& name) {
        const char* const folder = std::getenv("WINDLASS_SCREENSHOTS");
        if (folder == nullptr) return;
        std::filesystem::create_directories(folder);
        page_->screenshot(fmt::format("{}/{}.png", folder, name));
    }

    std::string looks_;
};

constexpr const char* kViews[] = {"runs", "new", "run", "talk"};

TEST_F(PageLooks, FitEveryWidthAndCanBeRead) {
    for (const char* view : kViews) {
        show(view);
        for (const bool is_dark : {false, true}) {
            page_->set_dark(is_dark);
            for (const int width : {360, 768, 1280, 1600}) {
                const std::string name = fmt::format("{}-{}-{}", view, is_dark ? "dark" : "light", width);
                SCOPED_TRACE(name);
                page_->set_width(width);
                page_->evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
                EXPECT_THAT(faults("widthFaults"), testing::IsEmpty());
                EXPECT_THAT(faults("contrastFaults"), testing::IsEmpty());
                write_picture(name);
            }
        }
        page_->set_dark(false);
        page_->set_width(1280);
    }
    expect_quiet();
}

TEST_F(PageLooks, AreReachedByTheKeyboard) {
    for (const char* view : kViews) {
        SCOPED_TRACE(view);
        show(view);
        const auto controls = page_->evaluate(fmt::format("({}).watchFocus()", looks_)).get<int>();
        EXPECT_GT(controls, 4);
        for (int i = 0; i < controls + 5; ++i) page_->press("Tab");
        EXPECT_THAT(faults("focusFaults"), testing::IsEmpty());
        EXPECT_THAT(faults("nameFaults"), testing::IsEmpty());
    }
}

using PageToken = PageTest;

TEST_F(PageToken, IsSaidToBeMissingAndIsNotLeftInTheAddress) {
    open();
    Tab bare(Browser::shared());
    bare.open(ui_->origin() + "/");
    bare.wait_until("document.body.innerText.includes('windlass ui')");
    EXPECT_THAT(bare.requests(), testing::Not(testing::Contains(testing::HasSubstr("/api/"))));
    EXPECT_THAT(bare.console(), testing::IsEmpty());
    // The token is not left in the address, where a look over a shoulder or a copied address would give it away.
    EXPECT_EQ(page_->text("location.href").find(ui_->token()), std::string::npos);
    EXPECT_EQ(page_->evaluate("document.cookie"), "");
}

}  // namespace
}  // namespace windlass::page
