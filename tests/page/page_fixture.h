// page_fixture.h: the page of `windlass ui` in a browser, over a folder with a model that learns two chats in a second.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/page/needs_browser.h"
#include "tests/page/tab.h"
#include "tests/page/ui.h"

namespace windlass::page {

class PageTest : public testing::Test {
  protected:
    PageTest();
    void SetUp() override { WINDLASS_NEEDS_BROWSER(); }
    void TearDown() override;

    // Starts the server, and opens its page in a new tab.
    void open();
    // A view of the page: "#/runs".
    void go(const std::string& view, const std::string& is_there);
    // The view of the run in this folder.
    void go_to_run(const std::string& folder);

    // Settings of a run into this folder of the sandbox. 150 steps are enough to know the chats by heart.
    static Json settings(const std::string& output_dir, int64_t steps);
    // The same run as a user types it.
    cli::Command train(const Json& settings) const;
    // Puts settings into the form of a new run, by typing.
    void type_settings(const Json& settings);

    // Nothing but the page's own origin was asked, and nothing was said to the console.
    void expect_quiet() const;
    // The text of the first element with this data-name.
    std::string named(const std::string& name);

    cli::Sandbox sandbox_;
    std::unique_ptr<Ui> ui_;
    std::unique_ptr<Tab> page_;
};

}  // namespace windlass::page
