// docs/security.md names tests that exist, and says truly that there is no network.
#include <regex>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

std::set<std::string> names_of_tests() {
    std::set<std::string> names;
    static const std::regex kTest(R"(\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
    for (const SourceFile& file : tree()) {
        if (!file.in("tests/") || !file.is_cpp()) continue;
        for (std::sregex_iterator test(file.text.begin(), file.text.end(), kTest), end; test != end; ++test)
            names.insert((*test)[1].str() + "." + (*test)[2].str());
    }
    return names;
}

TEST(SecurityPage, NamesATestInEachRow) {
    const SourceFile* const page = find_file("docs/security.md");
    ASSERT_NE(page, nullptr);
    const std::set<std::string> tests = names_of_tests();
    const size_t table = page->text.find("## Published findings");
    ASSERT_NE(table, std::string::npos);
    static const std::regex kRow(R"(\n\| ([^|\n]+) \|[^|\n]*\|[^|\n]*\| (`[^|\n]+`) \|)");
    static const std::regex kName(R"(`(\w+\.\w+)`)");
    int rows = 0;
    for (std::sregex_iterator row(page->text.begin() + static_cast<std::ptrdiff_t>(table), page->text.end(), kRow), end;
         row != end; ++row, ++rows) {
        const std::string cell = (*row)[2];
        for (std::sregex_iterator name(cell.begin(), cell.end(), kName), last; name != last; ++name)
            EXPECT_TRUE(tests.contains((*name)[1])) << (*row)[1] << ": there is no test " << (*name)[1];
        EXPECT_TRUE(std::regex_search(cell, kName)) << (*row)[1];
    }
    EXPECT_GE(rows, 15);
}

// What is written to a socket was opened by others, as standard output (base/standard_streams.h).
TEST(Network, IsNotUsed) {
    std::vector<std::string> offenders;
    bool sees_words = false;
    static const std::set<std::string_view> kWords = {
        "AF_INET",     "AF_INET6",     "AF_UNIX",     "AF_LOCAL",    "PF_INET",       "sockaddr",
        "sockaddr_in", "sockaddr_in6", "sockaddr_un", "getaddrinfo", "gethostbyname", "inet_pton",
        "SOCK_STREAM", "SOCK_RAW",     "INADDR_ANY",  "in_port_t",   "htons"};
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || !file.is_cpp()) continue;
        const std::string code = without_comments(file.text);
        for (const std::string_view word : words_of(code)) {
            sees_words |= word == "MSG_NOSIGNAL";
            if (kWords.contains(word)) offenders.push_back(file.path + ": " + std::string(word));
        }
    }
    EXPECT_TRUE(sees_words) << "the words of code are not seen";
    EXPECT_TRUE(offenders.empty()) << listing(offenders);
}

}  // namespace
}  // namespace windlass::tidy
