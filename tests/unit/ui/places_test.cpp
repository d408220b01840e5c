#include "ui/places.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "{}";
}

TEST(Places, AreModelsAndRowsButNoFilesOfRunsAndModels) {
    const TempFolder folder;
    for (const char* path : {"root/rows.jsonl", "root/data/more.csv.gz", "root/data/notes.md", "root/m/config.json",
                             "root/m/tokenizer.json", "root/runs/a/events.jsonl", "root/runs/a/metrics.jsonl",
                             "root/runs/a/final/config.json", "root/runs/a/checkpoint-1/manifest.json",
                             "root/runs/ab.jsonl", "hub/models--org--name/refs/main", "hub/datasets--x/y"})
        write(folder / path);
    const Json places = places_json(Root(folder / "root", {}), folder / "hub");
    EXPECT_EQ(places["models"].dump(), R"([{"model":"m","from":"folder"},{"model":"runs/a/final","from":"folder"},)"
                                       R"({"model":"org/name","from":"cache"}])");
    EXPECT_EQ(places["data"].dump(), R"([{"path":"data/more.csv.gz","bytes":2},{"path":"rows.jsonl","bytes":2},)"
                                     R"({"path":"runs/ab.jsonl","bytes":2}])");
}

}  // namespace
}  // namespace windlass
