// Names of folders, rows and what a model writes are shown as texts, whatever is in them.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/json.h"
#include "tests/page/page_fixture.h"

namespace windlass::page {
namespace {

using testing::HasSubstr;

constexpr const char* kImage = "<img src=x onerror=\"document.title='taken'\">";
constexpr const char* kScript = "<script>document.title='taken'</script>";
constexpr const char* kReversed = "a\u202etxt.exe";  // everything after the mark is written from right to left
constexpr size_t kLongBytes = 1'000'000;

class PageHostile : public PageTest {
  protected:
    PageHostile() {
        const auto chat = [](const std::string& question, const std::string& answer) {
            return Json({{"messages",
                          {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}})
                .dump();
        };
        sandbox_.rows(fmt::format("{}.jsonl", name(kImage)),
                      {chat(kImage, kScript), chat(kReversed, "\x1b]0;taken\x07 \xe2\x80\x8f")});
        sandbox_.rows("long.jsonl", {chat("long", std::string(kLongBytes, 'w'))});
    }

    // As a name of a file.
    static std::string name(std::string text) {
        std::replace(text.begin(), text.end(), '/', '\\');
        return text;
    }

    void expect_only_texts() {
        EXPECT_EQ(page_->evaluate("document.querySelectorAll('img, iframe, object, embed, body script').length"), 0);
        EXPECT_EQ(page_->evaluate("document.title.includes('taken') && !document.title.includes('<')"), false);
        EXPECT_EQ(page_->evaluate("/[\\u202a-\\u202e\\u2066-\\u2069\\u200f\\u001b]/.test(document.body.innerText)"),
                  false);
        expect_quiet();
    }

    void wait_for_text(const std::string& text) {
        page_->wait_until(fmt::format("document.body.innerText.includes({})", quoted(text)), 30);
    }
};

TEST_F(PageHostile, NamesAreTexts) {
    for (const char* text : {kImage, kScript, kReversed}) {
        Json hostile = settings(fmt::format("runs/{}", name(text)), 3);
        hostile["train_data"] = Json::array({fmt::format("{}.jsonl", name(kImage))});
        hostile["sample_prompts"] = Json::array({text});
        hostile["sample_steps"] = 1;
        hostile["sample_max_new_tokens"] = 4;
        cli::must_succeed(train(hostile));
    }
    open();
    page_->wait_until("document.querySelectorAll('[data-run]').length == 3");
    wait_for_text(name(kImage));
    wait_for_text(name(kScript));
    expect_only_texts();
    for (const char* text : {kImage, kScript, kReversed}) {
        go_to_run(fmt::format("runs/{}", name(text)));
        page_->evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })");
        wait_for_text("max_steps");  // its run.yaml
        expect_only_texts();
    }
}

TEST_F(PageHostile, RowsAreTexts) {
    open();
    go("#/new", "#field-model");
    Json hostile = settings("b", 3);
    hostile["train_data"] = Json::array({fmt::format("{}.jsonl", name(kImage))});
    hostile["max_length"] = 256;
    type_settings(hostile);
    page_->evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })");
    page_->click("[data-action=rows]");
    wait_for_text(kScript);
    wait_for_text(kImage);
    expect_only_texts();
    page_->click("[data-action=start]");
    page_->wait_until("location.hash.startsWith('#/run/')", 30);
    expect_only_texts();
}

TEST_F(PageHostile, AMegabyteOfTextIsShownInPart) {
    cli::edit_json(sandbox_.model() + "/config.json", [](Json& json) { json["max_position_embeddings"] = 1 << 21; });
    open();
    go("#/new", "#field-model");
    Json longest = settings("b", 3);
    longest["train_data"] = Json::array({"long.jsonl"});
    longest["max_length"] = 1 << 20;
    type_settings(longest);
    page_->click("[data-action=rows]");
    wait_for_text("wwwwwwww");
    EXPECT_EQ(page_->evaluate("document.scrollingElement.scrollWidth <= innerWidth"), true);
    expect_only_texts();
}

// Errors that quote a name do not write markup either.
TEST_F(PageHostile, ErrorsAreTexts) {
    open();
    go("#/new", "#field-model");
    Json wrong = settings(kImage, 3);
    wrong["model"] = kImage;
    type_settings(wrong);
    page_->click("[data-action=start]");
    page_->wait_until("document.querySelector('[data-name=error-text]')", 30);
    EXPECT_THAT(page_->text("document.querySelector('#main').innerText"), HasSubstr(kImage));
    EXPECT_EQ(page_->evaluate("document.querySelectorAll('img, iframe, body script').length"), 0);
    go("#/run/" + std::string("%3Cimg%20src%3Dx%3E"), "[data-name=error-text]");
    EXPECT_EQ(page_->evaluate("document.querySelectorAll('img, iframe, body script').length"), 0);
}

}  // namespace
}  // namespace windlass::page
