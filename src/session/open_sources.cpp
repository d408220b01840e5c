// Opens what a run is about: the model's folder, its adapter, the tokenizer and the rows.
#include "base/error.h"
#include "data/open_adapter.h"
#include "data/open_model.h"
#include "model/families.h"
#include "model/preference_head.h"
#include "session/session.h"

namespace windlass {
namespace {

// max_length as the model allows it: a default above its positions is lowered, a wish is refused.
void fit_length(Config& config, const ModelSpec& model, std::vector<std::string>& notes) {
    if (config.max_length <= model.context_length) return;
    if (config.was_given("max_length")) {
        throw UserError(ExitCode::usage, "max_length", "{} tokens, but the model was made for {}", config.max_length,
                        model.context_length)
            .hint(fmt::format("max_length: {}", model.context_length));
    }
    config.max_length = model.context_length;
    notes.push_back(fmt::format("max_length is {}, the model's number of positions", config.max_length));
}

// What is planned from config.json alone.
std::string absent_note(const Sources& sources) {
    const bool has_type = sources.folder.config().has({"dtype", "torch_dtype"});
    return fmt::format("{} holds no weights: planned from config.json alone, which says {}", sources.config.model,
                       has_type ? fmt::format("that they are {}", dtype_name(files_type(sources.spec)))
                                : "nothing of their type, so f32");
}

bool lacks_tokenizer(FileSystem& files, const std::string& model) {
    return !files.exists(path_in(model, "tokenizer.json")) && !files.exists(path_in(model, "vocab.json"));
}

}  // namespace

Sources open_sources(FileSystem& files, const Config& config, ConfigUse use) {
    Sources sources{.config = config,
                    .folder = ModelFolder::open(
                        files, config.model,
                        {.weights_may_be_absent = use == ConfigUse::plan, .ignored_keys = config.ignore_config_keys}),
                    .preference = preference_of(config)};
    HfConfig hf_config = sources.folder.config();
    sources.spec = build_model(hf_config, sources.folder.tensors());
    sources.adapter = put_adapter(files, config, sources.folder, sources.spec);
    if (sources.preference) sources.spec = judge_pairs(std::move(sources.spec), *sources.preference);
    sources.notes = sources.spec.notes;
    if (const std::string& note = sources.folder.renaming_note(); !note.empty()) sources.notes.push_back(note);
    fit_length(sources.config, sources.spec, sources.notes);
    std::vector<std::string>& rows = sources.config.train_data;
    if (sources.folder.tensors().empty()) {
        sources.notes.push_back(absent_note(sources));
        if (!rows.empty() && lacks_tokenizer(files, config.model)) {
            sources.notes.push_back(
                fmt::format("no tokenizer to read {} with: all rows are taken to be max_length, {} tokens",
                            rows.front(), sources.config.max_length));
            rows.clear();
        }
    }
    if (rows.empty()) return sources;
    sources.tokenizer = open_tokenizer(files, config.model, sources.spec);
    sources.data = RunData::open(files, sources.config, *sources.tokenizer);
    return sources;
}

}  // namespace windlass
