// Lists are written by hand, so that they can be read; nothing may be missing from them.
#include <regex>
#include <set>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

// Names of the constants of a type that the files of a folder define.
std::map<std::string, std::string> definitions(std::string_view folder, std::string_view type) {
    const std::regex definition(fmt::format(R"(\n(?:constinit |extern )*const {} (k\w+)\s*(?:=|\{{))", type));
    std::map<std::string, std::string> found;
    for (const SourceFile& file : tree()) {
        if (!file.in(folder) || !file.path.ends_with(".cpp")) continue;
        for (std::sregex_iterator it(file.text.begin(), file.text.end(), definition), end; it != end; ++it)
            found[(*it)[1]] = file.path;
    }
    return found;
}

void expect_listed(std::string_view folder, std::string_view type, std::string_view list_path) {
    const std::map<std::string, std::string> defined = definitions(folder, type);
    ASSERT_FALSE(defined.empty()) << folder << " defines no " << type << ": is it written in another way now?";
    const SourceFile* const list = find_file(list_path);
    ASSERT_NE(list, nullptr) << list_path;
    for (const auto& [name, path] : defined)
        EXPECT_TRUE(std::regex_search(list->text, std::regex("&" + name + "\\b")))
            << path << " defines " << name << ", which " << list_path << " does not list";
}

TEST(Lists, HoldEveryOp) {
    expect_listed("src/op/", "OpRecord", "src/op/all.cpp");
}
TEST(Lists, HoldEveryFamily) {
    expect_listed("src/model/families/", "Family", "src/model/families/all.cpp");
}
TEST(Lists, HoldEveryMethod) {
    expect_listed("src/method/", "Method", "src/method/all.cpp");
}
TEST(Lists, HoldEveryWeightOp) {
    expect_listed("src/perturb/", "WeightOp", "src/perturb/copy.cpp");
}
TEST(Lists, HoldEveryPolicy) {
    expect_listed("src/plan/policies/", "Policy", "src/plan/policies/all.cpp");
}

TEST(Lists, EveryMethodFolderDefinesOne) {
    std::map<std::string, bool> folders;
    for (const auto& [name, path] : definitions("src/method/", "Method"))
        folders[path.substr(0, path.rfind('/'))] = true;
    // What methods stand on.
    const std::set<std::string, std::less<>> shared = {"src/method/forward_only", "src/method/projector"};
    for (const SourceFile& file : tree())
        if (file.in("src/method/") && file.folder() != "src/method" && !shared.contains(file.folder()))
            folders.emplace(file.folder(), false);
    for (const auto& [folder, defines] : folders) EXPECT_TRUE(defines) << folder << " defines no Method";
}

}  // namespace
}  // namespace windlass::tidy
