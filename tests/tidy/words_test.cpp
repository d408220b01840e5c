// Words that read twice (STYLE.md, Words) get rarer. words.txt says how often each may appear; its numbers only fall.
#include <cctype>
#include <sstream>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

constexpr std::string_view kAllowed = "tests/tidy/words.txt";
constexpr double kWords = 1e4;
constexpr double kSlack = 1;  // by which an allowed number may exceed the counted one

bool is_letter(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '\'';
}

// Words in small letters with one blank between, before and after them.
std::string words_of(std::string_view text) {
    std::string words = " ";
    for (const char c : text) {
        if (is_letter(c)) {
            words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (words.back() != ' ') {
            words += ' ';
        }
    }
    if (words.back() != ' ') words += ' ';
    return words;
}

int64_t count_words(std::string_view words) {
    return std::count(words.begin(), words.end(), ' ') - 1;
}

int64_t count(std::string_view words, const std::string& phrase) {
    int64_t found = 0;
    const std::string wanted = " " + phrase + " ";
    for (size_t at = words.find(wanted); at != words.npos; at = words.find(wanted, at + 1)) ++found;
    return found;
}

// "so many|as many": either.
int64_t count_any(std::string_view words, const std::string& phrases) {
    int64_t found = 0;
    std::istringstream list(phrases);
    for (std::string phrase; std::getline(list, phrase, '|');) found += count(words, phrase);
    return found;
}

// Comments and literals.
std::string prose_of(const SourceFile& file) {
    std::string prose = code_of(file.text);
    for (size_t i = 0; i < prose.size(); ++i) prose[i] = prose[i] == ' ' ? file.text[i] : ' ';
    return prose;
}

struct Prose {
    const SourceFile* file;
    std::string words;
};

// Pages but those of results, which are records; STYLE.md names the words.
std::vector<Prose> pages() {
    std::vector<Prose> list;
    for (const SourceFile& file : tree())
        if (file.path.ends_with(".md") && !file.in("docs/results/") && file.path != "STYLE.md")
            list.push_back({&file, words_of(file.text)});
    return list;
}

std::vector<Prose> sources() {
    std::vector<Prose> list;
    for (const SourceFile& file : tree())
        if (file.is_cpp() && file.in("src/")) list.push_back({&file, words_of(prose_of(file))});
    return list;
}

// "behind" -> 2.5, from lines such as "pages 2.5 behind".
std::map<std::string, double> allowed_in(const std::string& place) {
    std::map<std::string, double> allowed;
    for (const std::string_view line : find_file(kAllowed)->lines()) {
        std::istringstream words{std::string(line)};
        std::string where, phrases;
        double most = 0;
        if (words >> where >> most && where == place && std::getline(words >> std::ws, phrases))
            allowed[phrases] = most;
    }
    return allowed;
}

void expect_rare(const std::string& place, const std::vector<Prose>& list) {
    const std::map<std::string, double> allowed = allowed_in(place);
    EXPECT_FALSE(allowed.empty());
    int64_t all = 0;
    for (const Prose& prose : list) all += count_words(prose.words);
    std::vector<std::string> found;
    for (const auto& [phrases, most] : allowed) {
        int64_t times = 0, highest = 0;
        std::string where;
        for (const Prose& prose : list) {
            const int64_t here = count_any(prose.words, phrases);
            times += here;
            if (here > highest) highest = here, where = prose.file->path;
        }
        const double rate = static_cast<double>(times) / static_cast<double>(all) * kWords;
        const std::string fact = fmt::format("{}: {:.1f} in 10,000 words are \"{}\" ({} times; {} has {})", place, rate,
                                             phrases, times, where, highest);
        if (rate > most)
            found.push_back(fmt::format("{}; {} allows {}. STYLE.md has better ones", fact, kAllowed, most));
        if (rate < most - kSlack) found.push_back(fmt::format("{}; lower the {} of {}", fact, most, kAllowed));
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Words, ThatReadTwiceGetRarerInPages) {
    expect_rare("pages", pages());
}

TEST(Words, ThatReadTwiceGetRarerInComments) {
    expect_rare("src", sources());
}

TEST(Words, AreCountedWhole) {
    const std::string words = words_of("Behind it, behind-\nhand: so\n// many beside besides.");
    EXPECT_EQ(words, " behind it behind hand so many beside besides ");
    EXPECT_EQ(count_words(words), 8);
    EXPECT_EQ(count_any(words, "behind|so many"), 3);
    EXPECT_EQ(count_any(words, "beside"), 1);
    const SourceFile file{"src/a.cpp", "int behind = 0;  // beside\nlog(\"so many\");\n"};
    EXPECT_EQ(words_of(prose_of(file)), " beside so many ");
}

}  // namespace
}  // namespace windlass::tidy
