// Log-likelihoods of answers that a run's reference model gave.
#include "train/references.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_references(std::string_view input) {
    InputFiles folder(input, "references.json.summed");
    constexpr ReferenceCounts kCounts = {.training = 2, .evaluated = 1};
    use(read_references(folder.files(), folder.path("references.json"), "rows ab", kCounts));
}

}  // namespace windlass
