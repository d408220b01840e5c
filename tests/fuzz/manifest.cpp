// The manifest of a checkpoint, and the files that it names.
#include "format/manifest.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_manifest(std::string_view input) {
    InputFiles folder(input, "manifest.json.summed");
    const Manifest manifest = read_manifest(folder.files(), folder.folder());
    verify_manifest(folder.files(), folder.folder(), manifest);
    use(manifest.run_state);
}

}  // namespace windlass
