#include "data/gguf_fields.h"

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "data/chats.h"
#include "format/side_files.h"
#include "tokenizer/ggml_tokens.h"

namespace windlass {
namespace {

// A tokenizer is read from these.
constexpr const char* kTokenizerNames[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json",
                                           "merges.txt",     "added_tokens.json",     "special_tokens_map.json",
                                           "config.json",    "generation_config.json"};

void add_tokens(GgmlTokens tokens, std::vector<GgufField>& fields) {
    const auto add = [&](const char* key, GgufValue value) {
        fields.push_back({fmt::format("tokenizer.ggml.{}", key), std::move(value)});
    };
    const auto add_id = [&](const char* key, std::optional<int32_t> id) {
        if (id && static_cast<size_t>(*id) < tokens.types.size()) add(key, static_cast<uint32_t>(*id));
    };
    add_id("bos_token_id", tokens.bos);
    add_id("eos_token_id", tokens.eos);
    add_id("eot_token_id", tokens.eot);
    add_id("unknown_token_id", tokens.unk);
    add_id("padding_token_id", tokens.pad);
    add("model", std::move(tokens.model));
    add("pre", std::move(tokens.cut));
    add("tokens", std::move(tokens.tokens));
    add("token_type", std::move(tokens.types));
    if (!tokens.scores.empty()) add("scores", std::move(tokens.scores));
    if (!tokens.merges.empty()) add("merges", std::move(tokens.merges));
    add("add_bos_token", tokens.adds_bos);
    add("add_eos_token", tokens.adds_eos);
    add("add_space_prefix", tokens.adds_space);
}

}  // namespace

std::vector<GgufField> gguf_fields(FileSystem& files, const std::string& folder, int64_t rows, std::string_view name,
                                   std::string chat_template) {
    for (const char* const name : kTokenizerNames) {
        if (files.exists(path_in(folder, name))) require_copyable(files, folder, name);
    }
    GgmlTokens tokens = ggml_tokens(Tokenizer::load(files, folder), rows, folder);
    for (const std::string& note : tokens.notes) log_warning("{}: {}", folder, note);
    std::vector<GgufField> fields = {{"general.name", ggml_model_name(name, tokens)}};
    add_tokens(std::move(tokens), fields);
    if (chat_template.empty()) {
        std::optional<ChatTemplateSource> found = copyable_template(files, folder);
        if (found) chat_template = std::move(found->text);
    }
    if (!chat_template.empty()) fields.push_back({"tokenizer.chat_template", std::move(chat_template)});
    return fields;
}

}  // namespace windlass
