// Configurations: run.yaml of users and of runs, presets, and training files of other trainers.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "config/config.h"
#include "config/foreign/translate.h"
#include "config/preset.h"
#include "persist/run_identity.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {
namespace {

// As train would use it; what it makes of it reads back.
void read_configuration(InputFiles& folder, const std::vector<std::string>& words) {
    const ReadConfig read = make_config(read_config_sources(folder.files(), words), ConfigUse::train);
    folder.put("again.yaml", config_to_yaml(read.config));
    const std::array again = {folder.path("again.yaml")};
    use(make_config(read_config_sources(folder.files(), again), ConfigUse::train).notes);
}

}  // namespace

void fuzz_configuration(std::string_view input) {
    InputFiles folder(input, "run.yaml");
    use(identity_in_run(folder.files(), folder.folder()));
    read_configuration(folder, {folder.path("run.yaml")});
}

void fuzz_preset(std::string_view input) {
    InputFiles folder(input, "preset.json");
    read_configuration(
        folder, {"--preset", folder.path("preset.json"), "model=m", "train_data=r.jsonl", "output_dir=o", "ssd_dir=s"});
}

void fuzz_foreign(std::string_view input) {
    InputFiles folder(input, "theirs.yaml");
    const Translation made = translate_config(folder.files(), folder.path("theirs.yaml"));
    folder.put("ours.yaml", made.yaml);
    try {
        use(read_config_file(folder.files(), folder.path("ours.yaml")));
    } catch (const Error& error) {
        WINDLASS_CHECK(false, "what was translated does not read back: {}", error.what());
    }
}

}  // namespace windlass
