#include "session/stops.h"

#include "data/generation_config.h"

namespace windlass {

void resolve_stops(FileSystem& files, Session& session) {
    const std::optional<int32_t> end = session.data->text_end();
    if (!end) return;
    session.generation_config = generation_config_with_stop(files, session.config.model, *end);
    if (session.generation_config.empty()) return;
    session.notes.push_back(fmt::format(
        "generation_config.json of {} is changed: it stops at {} too, which ends trained texts",
        ends_as_adapter(session.model) ? "merged models" : "the trained model", session.tokenizer->id_to_token(*end)));
}

}  // namespace windlass
