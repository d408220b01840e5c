#include "data/gguf_fields.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "data/chat_template.h"
#include "text/ggml_tokens.h"

namespace windlass {
namespace {

// The template called "default" where there are several.
std::string template_of(const SortedJson& json) {
    if (json.is_string()) return json.get<std::string>();
    if (!json.is_array()) return "";
    for (const SortedJson& entry : json)
        if (entry.is_object() && entry.value("name", SortedJson()) == "default" && entry.contains("template"))
            return template_of(entry["template"]);
    return "";
}

std::string chat_template_text(FileSystem& files, const std::string& folder) {
    const std::string name = chat_template_file(files, folder);
    if (name.empty()) return "";
    const std::string path = fmt::format("{}/{}", folder, name);
    const std::string text = read_text(files, path, kTokenizerConfigBytesMax);
    if (!name.ends_with(".json")) return text;
    const SortedJson json = parse_sorted_json(text, path, ExitCode::model);
    return json.is_object() && json.contains("chat_template") ? template_of(json["chat_template"]) : "";
}

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

std::vector<GgufField> gguf_fields(FileSystem& files, const std::string& folder, int64_t rows) {
    GgmlTokens tokens = ggml_tokens(Tokenizer::load(files, folder), rows, folder);
    for (const std::string& note : tokens.notes) log_warning("{}: {}", folder, note);
    std::vector<GgufField> fields;
    add_tokens(std::move(tokens), fields);
    if (std::string text = chat_template_text(files, folder); !text.empty())
        fields.push_back({"tokenizer.chat_template", std::move(text)});
    return fields;
}

}  // namespace windlass
