#include "persist/export.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

TEST(ModelsOfRun, AreThoseThatItsSettingsName) {
    const TempFolder folder;
    EXPECT_TRUE(models_of_run(real_files(), folder.path()).empty());
    write_bytes(folder / "run.yaml", "model: /models/base\ntrain_data: [a.jsonl]\n");
    EXPECT_EQ(models_of_run(real_files(), folder.path()), std::vector<std::string>{"/models/base"});
    real_files().make_folders(folder / "checkpoint-3");
    EXPECT_EQ(models_of_run(real_files(), folder / "checkpoint-3/.."), std::vector<std::string>{"/models/base"});
}

}  // namespace
}  // namespace windlass
