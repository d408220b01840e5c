#include "data/open_model.h"

#include "base/error.h"
#include "base/log.h"
#include "data/open_adapter.h"
#include "model/adapters/first_weights.h"
#include "model/families.h"

namespace windlass {

void limit_rows(Tokenizer& tokenizer, const std::string& path, int64_t rows) {
    if (tokenizer.vocab_size() <= rows) return;
    log_info("note: {}: the tokenizer has {} ids, the model {} rows: a text that uses one of the others is refused",
             path, tokenizer.vocab_size(), rows);
    tokenizer.limit_rows(static_cast<int32_t>(rows));
}

Tokenizer open_tokenizer(FileSystem& files, const std::string& path, const ModelSpec& model) {
    Tokenizer tokenizer = Tokenizer::load(files, path);
    limit_rows(tokenizer, path, model.vocab);
    return tokenizer;
}

ReadMasters OpenModel::weights() const {
    return first_weights(folder, model, /*seed=*/0, adapter ? &*adapter : nullptr);
}

OpenModel open_model(FileSystem& files, const Config& config) {
    if (is_adapter_name(config.adapter))
        throw UserError(ExitCode::usage, "adapter", "{} is not the folder of an adapter but the kind of one to train",
                        config.adapter)
            .hint("a folder with adapter_config.json");
    ModelFolder folder = ModelFolder::open(files, config.model, {.ignored_keys = config.ignore_config_keys});
    HfConfig hf_config = folder.config();
    ModelSpec model = build_model(hf_config, folder.tensors());
    for (const std::string& note : model.config_notes) log_warning("{}", note);
    if (!folder.renaming_note().empty()) log_info("note: {}", folder.renaming_note());
    std::optional<AdapterFolder> adapter = put_adapter(files, config, folder, model);
    Tokenizer tokenizer = open_tokenizer(files, config.model, model);
    return {std::move(folder), std::move(adapter), TrainedModel(std::move(model)), std::move(tokenizer)};
}

}  // namespace windlass
