// export_request.h: how one process asks another, which is training, for a model folder.
//
// The file `export` in a run's folder is a request, as `save` is. Empty, it asks for export-<step>/ there; else it is
// what `windlass export` writes: a JSON object with the target, and the name of the file in which it waits for the
// answer. The run exports its last committed step, takes the request away once the export is whole or has failed, and
// answers: a request that a kill meets is still there when the run is resumed.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "persist/export.h"

namespace windlass {

struct ExportRequest {
    ExportOptions options;      // source is not used; without a target: export-<step>/ in the run's folder
    std::string reply;          // file that the asker waits for; empty: there is no asker
    bool is_in_folder = false;  // the file `export` asks for it
};

// The run's side. Nothing where nobody asks. A request that cannot be read is a warning, and removed.
std::optional<ExportRequest> read_export_request(FileSystem& files, const std::string& run_folder);
// Whether the request is gone; else a warning says why not.
bool remove_export_request(FileSystem& files, const std::string& run_folder);
void answer(FileSystem& files, const ExportRequest& request, const ExportResult& result);
void answer(FileSystem& files, const ExportRequest& request, const Error& refusal);

// The asker's side: waits for the answer while a process trains into the run's folder; nothing if that ended without
// one. A refusal is thrown as it was there. UserError(usage) if another request waits already.
std::optional<ExportResult> ask_for_export(FileSystem& files, const std::string& run_folder,
                                           const ExportOptions& options);

inline constexpr const char* kExportRequestName = "export";
inline constexpr const char* kExportReplyPrefix = "export-reply-";

}  // namespace windlass
