// stops.h: where programs that read the trained model's generation_config.json stop.
#pragma once

#include "session/session.h"

namespace windlass {

// Sets `generation_config`, with a note, if the model's own files do not stop at the token that trained texts end with.
// The session has data.
void resolve_stops(FileSystem& files, Session& session);

}  // namespace windlass
