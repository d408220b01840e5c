#include "tests/page/tab.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "tests/cli/process.h"

namespace windlass::page {
namespace {

using cli::clock_seconds;

constexpr double kLoadSeconds = 20;
constexpr double kElementSeconds = 10;
constexpr int kPollMilliseconds = 20;

std::string decode_base64(const std::string& text) {
    std::string bytes;
    uint32_t bits = 0;
    int count = 0;
    for (const char letter : text) {
        static const std::string kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const size_t value = kLetters.find(letter);
        if (value == std::string::npos) continue;  // padding
        bits = bits << 6 | static_cast<uint32_t>(value);
        if (count += 6; count < 8) continue;
        count -= 8;
        bytes.push_back(static_cast<char>(bits >> count & 0xff));
    }
    return bytes;
}

// An error or a message of the console as one line.
std::string line_of(const Json& arguments) {
    std::string line;
    for (const Json& argument : arguments) {
        line += line.empty() ? "" : " ";
        line += argument.contains("value") ? argument["value"].dump() : argument.value("description", "?");
    }
    return line;
}

struct Key {
    const char* name;
    const char* code;
    int number;  // windowsVirtualKeyCode
    const char* text;
};
constexpr std::array kKeys = {Key{"Tab", "Tab", 9, ""},
                              Key{"Enter", "Enter", 13, "\r"},
                              Key{"Escape", "Escape", 27, ""},
                              Key{"Backspace", "Backspace", 8, ""},
                              Key{" ", "Space", 32, " "},
                              Key{"ArrowUp", "ArrowUp", 38, ""},
                              Key{"ArrowDown", "ArrowDown", 40, ""},
                              Key{"ArrowLeft", "ArrowLeft", 37, ""},
                              Key{"ArrowRight", "ArrowRight", 39, ""}};

}  // namespace

std::string quoted(const std::string& text) {
    return Json(text).dump();
}

Tab::Tab(Browser& browser) : browser_(browser) {
    context_ = browser_.call("Target.createBrowserContext", Json::object()).at("browserContextId");
    target_ =
        browser_.call("Target.createTarget", {{"url", "about:blank"}, {"browserContextId", context_}}).at("targetId");
    session_ = browser_.call("Target.attachToTarget", {{"targetId", target_}, {"flatten", true}}).at("sessionId");
    browser_.listen(session_, [this](const std::string& method, const Json& params) { take(method, params); });
    for (const char* domain : {"Page", "Runtime", "Log", "Network"})
        call(fmt::format("{}.enable", domain), Json::object());
    set_width(1280);
}

Tab::~Tab() {
    browser_.forget(session_);
    try {
        browser_.call("Target.disposeBrowserContext", {{"browserContextId", context_}});
    } catch (const BrowserError&) {  // it has gone: so has the page
    }
}

Json Tab::call(const std::string& method, const Json& params) {
    return browser_.call(method, params, session_);
}

void Tab::take(const std::string& method, const Json& params) {
    if (method == "Page.loadEventFired") ++loads_;
    if (method == "Network.requestWillBeSent") requests_.push_back(params.at("request").at("url"));
    if (method == "Runtime.consoleAPICalled")
        console_.push_back(params.value("type", "") + ": " + line_of(params.at("args")));
    if (method == "Runtime.exceptionThrown") console_.push_back("exception: " + params.at("exceptionDetails").dump());
    if (method == "Log.entryAdded") {
        const Json& entry = params.at("entry");
        console_.push_back(
            fmt::format("{}: {} {}", entry.value("source", ""), entry.value("text", ""), entry.value("url", "")));
    }
}

void Tab::wait_for_load(int loads, const std::string& what) {
    browser_.read_until([&] { return loads_ > loads; }, kLoadSeconds, "the end of loading " + what);
}

void Tab::open(const std::string& address) {
    const int loads = loads_;
    const Json answer = call("Page.navigate", {{"url", address}});
    if (answer.contains("errorText")) throw BrowserError(address + ": " + answer["errorText"].get<std::string>());
    if (answer.contains("loaderId")) wait_for_load(loads, address);  // absent if only the fragment differs
}

void Tab::reload() {
    const int loads = loads_;
    call("Page.reload", Json::object());
    wait_for_load(loads, "the page again");
}

Json Tab::evaluate(const std::string& expression) {
    const Json answer =
        call("Runtime.evaluate",
             {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}, {"userGesture", true}});
    if (answer.contains("exceptionDetails")) {
        const Json& details = answer["exceptionDetails"];
        throw BrowserError(fmt::format("{}\n{}", expression,
                                       details.contains("exception") ? details["exception"].value("description", "?")
                                                                     : details.value("text", "?")));
    }
    return answer.at("result").value("value", Json());
}

std::string Tab::text(const std::string& expression) {
    const Json value = evaluate(expression);
    return value.is_string() ? value.get<std::string>() : value.dump();
}

void Tab::wait_until(const std::string& expression, double seconds, const std::string& shown) {
    const double end = clock_seconds() + seconds;
    const std::string condition = fmt::format("Boolean({})", expression);
    while (evaluate(condition) != true) {
        if (clock_seconds() > end)
            throw BrowserError(fmt::format("after {} s this is still not so: {}\n{}: {}\nconsole: {}", seconds,
                                           expression, shown, text(shown), fmt::join(console_, "\n")));
        browser_.read_for(kPollMilliseconds);
    }
}

// Where the middle of an element is, or why it cannot be clicked. It is scrolled to first.
std::string Tab::find(const std::string& selector) {
    return text(fmt::format(R"((() => {{
        const element = [...document.querySelectorAll({})].find(
            (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== 'hidden');
        if (!element) return 'no such element is visible';
        if (element.disabled) return 'it is disabled';
        element.scrollIntoView({{block: 'center', inline: 'nearest', behavior: 'instant'}});
        const box = element.getClientRects()[0];
        const x = box.left + box.width / 2, y = box.top + box.height / 2;
        const hit = document.elementFromPoint(x, y);
        if (!hit) return 'it is outside of the window';
        if (!element.contains(hit)) return 'it is covered by ' + hit.outerHTML.slice(0, 200);
        window.isHit = false;
        element.addEventListener('mousedown', () => {{ window.isHit = true; }}, {{capture: true, once: true}});
        return '@' + x + ' ' + y;
    }})())",
                            quoted(selector)));
}

// Twice at the same place: it does not move any more. What moves all the same, since an answer of the server came
// just then, is let go and tried again, as a person does.
void Tab::click(const std::string& selector) {
    std::string last, found;
    const double end = clock_seconds() + kElementSeconds;
    for (;;) {
        if (clock_seconds() > end)
            throw BrowserError(fmt::format("after {} s {} cannot be clicked: {}\n{}", kElementSeconds, selector, found,
                                           text("document.body.innerText")));
        last = found;
        found = find(selector);
        if (last == found && found.starts_with('@') && click_at(found.substr(1))) return;
        browser_.read_for(kPollMilliseconds);
    }
}

// At "12.5 40", the middle of the element that was found last. False if it was not there any more.
bool Tab::click_at(const std::string& place) {
    double x = 0, y = 0;
    std::istringstream(place) >> x >> y;
    const auto send = [&](const char* type, const char* button) {
        call("Input.dispatchMouseEvent", {{"type", type}, {"x", x}, {"y", y}, {"button", button}, {"clickCount", 1}});
    };
    send("mouseMoved", "none");
    send("mousePressed", "left");
    const bool is_hit = evaluate("window.isHit") == true;
    if (!is_hit) x = y = 0;  // a button that is let go elsewhere clicks nothing
    send("mouseReleased", "left");
    return is_hit;
}

void Tab::type(const std::string& selector, const std::string& text) {
    click(selector);
    const std::string field = fmt::format("document.querySelector({})", quoted(selector));
    if (evaluate(fmt::format("{0} === document.activeElement && 'select' in {0}", field)) != true)
        throw BrowserError(fmt::format("{} takes no text; the focus is in {}", selector,
                                       this->text("document.activeElement.outerHTML.slice(0, 300)")));
    evaluate(field + ".select()");
    if (text.empty()) return press("Backspace");
    call("Input.insertText", {{"text", text}});
}

void Tab::press(const std::string& name, bool shift) {
    const auto* const key =
        std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& known) { return name == known.name; });
    if (key == kKeys.end()) throw BrowserError("there is no key " + name);
    constexpr int kShift = 8;
    Json event = {{"type", *key->text != 0 ? "keyDown" : "rawKeyDown"},
                  {"key", key->name},
                  {"code", key->code},
                  {"windowsVirtualKeyCode", key->number},
                  {"modifiers", shift ? kShift : 0}};
    if (*key->text != 0) event["text"] = key->text;
    call("Input.dispatchKeyEvent", event);
    event["type"] = "keyUp";
    event.erase("text");
    call("Input.dispatchKeyEvent", event);
}

void Tab::set_width(int width, int height) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
}

void Tab::set_dark(bool is_dark) {
    const Json feature = {{"name", "prefers-color-scheme"}, {"value", is_dark ? "dark" : "light"}};
    call("Emulation.setEmulatedMedia", {{"features", Json::array({feature})}});
}

void Tab::screenshot(const std::string& path) {
    const Json size = call("Page.getLayoutMetrics", Json::object()).at("cssContentSize");
    const Json clip = {{"x", 0}, {"y", 0}, {"width", size.at("width")}, {"height", size.at("height")}, {"scale", 1}};
    const Json answer =
        call("Page.captureScreenshot", {{"format", "png"}, {"captureBeyondViewport", true}, {"clip", clip}});
    std::ofstream(path, std::ios::binary) << decode_base64(answer.at("data").get<std::string>());
}

}  // namespace windlass::page
