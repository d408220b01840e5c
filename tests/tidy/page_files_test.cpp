// The page of `windlass ui` shows names and rows of strangers. So its files make no markup and no code of texts, and
// name no other host. The server's Content-Security-Policy forbids most of it too: this says it where it is written.
#include <regex>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

struct Rule {
    std::string name;
    std::regex found;
    std::string_view suffix;  // of the files that it is for; empty: all
};

const std::vector<Rule>& page_rules() {
    static const std::vector<Rule> kRules = {
        {"markup from text",
         std::regex("innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|srcdoc|DOMParser|"
                    "createContextualFragment|document\\s*\\.\\s*write"),
         ""},
        {"code from text",
         std::regex("\\beval\\s*\\(|[=,(]\\s*eval\\s*[),;]|\\bFunction\\s*\\(|javascript:|"
                    "set(Timeout|Interval)\\s*\\(\\s*['\"`]"),
         ""},
        {"a handler as an attribute", std::regex("[\\s'\"`]on[a-z]+\\s*=\\s*['\"]|\\son[a-z]+="), ".html"},
        {"a handler as an attribute", std::regex("[\\s'\"`]on[a-z]+=|setAttribute\\s*\\(\\s*['\"`]on"), ".js"},
        {"a style as an attribute", std::regex("\\bstyle=|setAttribute\\s*\\(\\s*['\"`]style|<style"), ""},
        {"an address", std::regex("https?://|\\bwss?://|['\"(]//[a-z]"), ""},
        {"a file of another place", std::regex("url\\s*\\((?!['\"]?(data:|#))|@import"), ".css"},
        {"a script within the page", std::regex("<script(?![^>]*\\ssrc=)"), ".html"},
        {"a cookie", std::regex("document\\s*\\.\\s*cookie"), ".js"},
    };
    return kRules;
}

// "line 3: markup from text".
std::vector<std::string> faults_of(const SourceFile& file) {
    std::vector<std::string> found;
    int number = 0;
    for (const std::string_view line : file.lines()) {
        ++number;
        for (const Rule& rule : page_rules())
            if (file.path.ends_with(rule.suffix) && std::regex_search(line.begin(), line.end(), rule.found))
                found.push_back(fmt::format("{}:{}: {}: {}", file.path, number, rule.name, line));
    }
    return found;
}

TEST(PageFiles, MakeNoMarkupAndNoCodeOfTexts) {
    std::vector<std::string> found;
    std::set<std::string_view> folders;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/ui/") || !file.is_page()) continue;
        folders.insert(file.folder());
        for (std::string& fault : faults_of(file)) found.push_back(std::move(fault));
    }
    EXPECT_EQ(folders, std::set<std::string_view>{"src/ui/page"}) << "the page's files are not found";
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(PageFiles, AreReadByRulesThatFindFaults) {
    for (const auto& [name, line] : std::initializer_list<std::pair<std::string, std::string>>{
             {"a.js", "row.innerHTML = text;"},
             {"a.js", "row.insertAdjacentHTML('beforeend', text);"},
             {"a.js", "document.write(text);"},
             {"a.js", "const value = eval(text);"},
             {"a.js", "const run = eval;"},
             {"a.js", "const f = new Function(text);"},
             {"a.js", "setTimeout('go()', 5);"},
             {"a.js", "const row = `<img src=x onerror=${text}>`;"},
             {"a.js", "row.setAttribute('onclick', text);"},
             {"a.js", "row.setAttribute('style', text);"},
             {"a.js", "fetch('http://example.org/x');"},
             {"a.js", "import {x} from 'https://example.org/x.js';"},
             {"a.html", "<script src=\"//example.org/x.js\"></script>"},
             {"a.html", "<script>go()</script>"},
             {"a.html", "<p onclick=\"go()\">"},
             {"a.html", "<p onclick=go()>"},
             {"a.html", "<p style=\"color: red\">"},
             {"a.html", "<style>p {}</style>"},
             {"a.css", "@import 'x.css';"},
             {"a.css", "p { background: url(x.png); }"}})
        EXPECT_FALSE(faults_of({name, line}).empty()) << name << ": " << line;
    for (const auto& [name, line] : std::initializer_list<std::pair<std::string, std::string>>{
             {"a.js", "const shown = status.eval === undefined ? null : values.eval;"},
             {"a.js", "setTimeout(retry, 5); // only once"},
             {"a.js", "bar.style.width = share; button.onclick = go;"},
             {"a.js", "if (a.style === b) go();"},
             {"a.html", "<script src=\"main.js\" type=\"module\"></script>"},
             {"a.html", "<option value=\"on\">on</option>"},
             {"a.css", "p { background: url(\"data:image/png;base64,\"); }"}})
        EXPECT_TRUE(faults_of({name, line}).empty()) << name << ": " << line;
}

}  // namespace
}  // namespace windlass::tidy
