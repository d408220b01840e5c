// Stores: an input's parts "layout", "record" and "other" make the file (sealed.h); "file" is one as it is.
#include "format/store.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/sealed.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_store(std::string_view input) {
    const std::vector<InputFile> parts = split_input(input, "layout");
    InputFiles folder;
    const std::string_view raw = part_of(parts, "file");
    folder.put("state.wls",
               raw.empty() ? sealed_store(part_of(parts, "layout"), part_of(parts, "record"), part_of(parts, "other"))
                           : std::string(raw));
    Store store = Store::open(folder.files(), folder.path("state.wls"));
    use(store.verify_all());
    use(store.committed_run_state());
}

}  // namespace windlass
