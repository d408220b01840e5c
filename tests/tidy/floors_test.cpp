// A floor includes lower floors only, and of those the ones that CMakeLists.txt says it sees.
#include <regex>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

struct Floor {
    int number = 0;
    std::set<std::string, std::less<>> sees;
};

// windlass_floor(<name> <number> [SEES <floor>...] [LINK ...]), as CMakeLists.txt writes it.
std::map<std::string, Floor, std::less<>> read_floors() {
    std::map<std::string, Floor, std::less<>> floors;
    const SourceFile* const file = find_file("CMakeLists.txt");
    if (file == nullptr) return floors;
    static const std::regex kFloor(R"(\nwindlass_floor\((\w+)\s+(\d+)(?:\s+SEES\s+([a-z\s]+))?)");
    for (std::sregex_iterator it(file->text.begin(), file->text.end(), kFloor), end; it != end; ++it) {
        Floor& floor = floors[(*it)[1]];
        floor.number = std::stoi((*it)[2]);
        const std::string seen = (*it)[3];
        static const std::regex kWord(R"(\w+)");
        for (std::sregex_iterator word(seen.begin(), seen.end(), kWord); word != end; ++word)
            floor.sees.insert(word->str());
    }
    return floors;
}

// "op" of `#include "op/op.h"`; empty for other lines.
std::string_view included_floor(std::string_view line) {
    constexpr std::string_view kInclude = "#include \"";
    if (!line.starts_with(kInclude)) return {};
    line.remove_prefix(kInclude.size());
    return line.substr(0, line.find('/'));
}

TEST(Floors, SeeLowerFloorsOnly) {
    const auto floors = read_floors();
    ASSERT_GE(floors.size(), 10u);
    for (const auto& [name, floor] : floors)
        for (const std::string& seen : floor.sees) {
            ASSERT_TRUE(floors.contains(seen)) << name << " sees " << seen << ", which is no floor";
            EXPECT_LT(floors.find(seen)->second.number, floor.number) << name << " sees " << seen;
        }
}

TEST(Floors, IncludeWhatTheySee) {
    const auto floors = read_floors();
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || !file.is_cpp()) continue;
        const std::string_view name = std::string_view(file.path).substr(4, file.path.find('/', 4) - 4);
        const auto own = floors.find(name);
        if (own == floors.end()) continue;  // app is above them all
        for (const std::string_view line : file.lines()) {
            const std::string_view seen = included_floor(line);
            if (seen.empty() || seen == name || own->second.sees.contains(seen)) continue;
            found.push_back(fmt::format("{}: {} does not see this: {}", file.path, name, line));
        }
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Floors, EveryFolderIsOne) {
    const auto floors = read_floors();
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || file.in("src/app/")) continue;
        const std::string_view name = std::string_view(file.path).substr(4, file.path.find('/', 4) - 4);
        if (!floors.contains(name)) found.push_back(file.path);
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Floors, CudaStaysInItsFiles) {
    static const std::regex kCuda("#include [<\"](cuda|cublas|cudnn|nccl|nvml|nvToolsExt|curand|cutlass|cute).*");
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        const bool legal = file.in("src/device/cuda/") || file.in("src/comm/nccl") || file.path.ends_with(".cu") ||
                           file.path.find("_cuda.") != std::string::npos;
        if (legal || !file.is_cpp()) continue;
        for (const std::string_view line : file.lines())
            if (std::regex_match(line.begin(), line.end(), kCuda))
                found.push_back(fmt::format("{}: {}", file.path, line));
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

}  // namespace
}  // namespace windlass::tidy
