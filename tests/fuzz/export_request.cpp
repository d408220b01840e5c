// What another process asks a run for.
#include "persist/export_request.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_export_request(std::string_view input) {
    InputFiles folder(input, kExportRequestName);
    const std::optional<ExportRequest> request = read_export_request(folder.files(), folder.folder());
    if (request) answer(folder.files(), *request, ExportResult{.from = "run", .step = 7, .bytes = 42});
}

}  // namespace windlass
