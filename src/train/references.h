// references.h: the reference model's log-likelihoods of the answers. The reference is the model as the run begins; of
// a run with an adapter it is the base without one.
//
// Computed once, with an engine of the run's plan, before the first step: no second model is ever in memory. Kept in
// the run's folder for resuming, and by content among the tokenised rows, for other runs of the same rows and
// model. Format: docs/format/references.md.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "persist/run_folder.h"
#include "run/engine.h"
#include "session/session.h"

namespace windlass {

// All that decides the numbers, as text. Reads the base through, so before an engine has taken its memory.
std::string references_key(const Session& session);

// Answers whose log-likelihoods a file holds are twice as many: two for each of these pairs.
struct ReferenceCounts {
    int64_t training = 0, evaluated = 0;
};
// What the file holds: nothing where it is not there, or of something else than `key`. Throws UserError(storage) if it
// is damaged. A file without a checksum is written again with one.
std::optional<References> read_references(FileSystem& files, const std::string& path, const std::string& key,
                                          const ReferenceCounts& pairs);

// What was kept; nothing where nothing was. Throws UserError(storage) where they are gone and the reference is, too.
std::optional<References> take_references(FileSystem& files, const Session& session, const RunFolder& folder,
                                          const std::string& key, bool reference_is_gone);

// What this engine computes, which is kept. The engine holds the reference's weights.
References find_references(FileSystem& files, const Session& session, const RunFolder& folder, const std::string& key,
                           Engine& engine);

}  // namespace windlass
