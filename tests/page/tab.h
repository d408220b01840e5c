// tab.h: one tab of the browser, with a storage of its own, as a new private window has.
//
// Input goes through the browser's own events: what a mouse or a keyboard could not do, click() and press() cannot do
// either. What the page says to the console and which addresses it asks for is collected. Failures throw BrowserError.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tests/page/browser.h"

namespace windlass::page {

class Tab {
  public:
    explicit Tab(Browser& browser);
    ~Tab();
    Tab(const Tab&) = delete;
    Tab& operator=(const Tab&) = delete;

    void open(const std::string& address);  // until the page is loaded
    void reload();

    // Value of an expression, after its promise if it is one. The page's exceptions are errors here.
    Json evaluate(const std::string& expression);
    std::string text(const std::string& expression);  // evaluate, for a string
    // Until the expression is true. The error has the value of `shown`, the page's text by default.
    void wait_until(const std::string& expression, double seconds = 10,
                    const std::string& shown = "document.body.innerText");

    // The first visible element that the selector names. It is waited for, and must be what the mouse hits.
    void click(const std::string& selector);
    // Replaces the text of a field.
    void type(const std::string& selector, const std::string& text);
    // Tab, Enter, Escape, ArrowDown, ArrowUp or a space; with shift.
    void press(const std::string& key, bool shift = false);

    void set_width(int width, int height = 900);
    void set_dark(bool is_dark);
    void screenshot(const std::string& path);  // PNG of the whole page

    // Of all documents since the tab was made.
    const std::vector<std::string>& console() const { return console_; }    // messages, exceptions, refusals of the CSP
    const std::vector<std::string>& requests() const { return requests_; }  // addresses

  private:
    Json call(const std::string& method, const Json& params);
    std::string find(const std::string& selector);
    bool click_at(const std::string& place);
    void take(const std::string& method, const Json& params);
    void wait_for_load(int loads, const std::string& what);

    Browser& browser_;
    std::string context_, target_, session_;
    int loads_ = 0;
    std::vector<std::string> console_, requests_;
};

// A string as an expression of JavaScript.
std::string quoted(const std::string& text);

}  // namespace windlass::page
