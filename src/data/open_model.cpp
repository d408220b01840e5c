#include "data/open_model.h"

#include "base/error.h"
#include "base/log.h"
#include "model/families.h"

namespace windlass {

Tokenizer open_tokenizer(FileSystem& files, const std::string& path, const ModelSpec& model) {
    Tokenizer tokenizer = Tokenizer::load(files, path);
    if (tokenizer.vocab_size() > model.vocab)
        throw UserError(ExitCode::model, path, "the tokenizer has {} ids, the model {}", tokenizer.vocab_size(),
                        model.vocab)
            .hint("the tokenizer files that belong to these weights");
    return tokenizer;
}

OpenModel open_model(FileSystem& files, const std::string& path, const std::vector<std::string>& ignored_keys) {
    ModelFolder folder = ModelFolder::open(files, path, {.ignored_keys = ignored_keys});
    HfConfig config = folder.config();
    TrainedModel model(build_model(config, folder.tensors()));
    for (const std::string& note : model.config_notes) log_warning("{}", note);
    Tokenizer tokenizer = open_tokenizer(files, path, model);
    return {std::move(folder), std::move(model), std::move(tokenizer)};
}

}  // namespace windlass
