// special_ids.cpp: which ids begin, end and pad, after the configuration files of a model folder.
#include <fmt/ranges.h>

#include "base/printable.h"
#include "tokenizer/parts.h"

namespace windlass {
namespace {

// "</s>" or {"content": "</s>", ...}; nothing when it is null.
std::optional<std::string> content_of(const SortedJson& json) {
    if (json.is_string()) return json.get<std::string>();
    const SortedJson& content = member(json, "content");
    if (content.is_string()) return content.get<std::string>();
    return std::nullopt;
}

// Ids of "eos_token_id": one, a list, or none. Those that no token has are left out: such files are often copied
// from another model.
std::vector<int32_t> ids_of(const SortedJson& json, const Vocab& vocab) {
    std::vector<int32_t> ids;
    const auto take = [&](const SortedJson& value) {
        const std::optional<int64_t> id = integer_of(value);
        if (id && *id >= 0 && *id < vocab.end_id() && vocab.has(static_cast<int32_t>(*id)))
            ids.push_back(static_cast<int32_t>(*id));
    };
    if (json.is_array())
        for (const auto& value : json) take(value);
    else
        take(json);
    return ids;
}

class SpecialReader {
  public:
    SpecialReader(TokenizerFolder& folder, const Vocab& vocab) : folder_(folder), vocab_(vocab) {}

    // The id of "bos", "eos", ...: by its spelling in the tokenizer's files, else by its number in the model's.
    std::optional<int32_t> find(const std::string& role, bool required) {
        const std::string key = role + "_token";
        for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
            const SortedJson& config = folder_.config(name);
            if (!config.contains(key)) continue;
            const auto content = content_of(config[key]);
            if (!content) return std::nullopt;  // said to be absent
            if (const auto id = vocab_.find(*content)) return id;
            if (required)
                throw UserError(ExitCode::model, folder_.path(name),
                                "\"{}\" is \"{}\", which the tokenizer does not have", key, excerpt(*content));
        }
        const auto ids = numbered(role);
        if (ids.empty()) return std::nullopt;
        return ids.front();
    }

    std::vector<int32_t> numbered(const std::string& role) {
        const std::string key = role + "_token_id";
        for (const char* name : {"generation_config.json", "config.json"}) {
            auto ids = ids_of(member(folder_.config(name), key.c_str()), vocab_);
            if (!ids.empty()) return ids;
        }
        return {};
    }

  private:
    TokenizerFolder& folder_;
    const Vocab& vocab_;
};

// add_bos_token and add_eos_token, where given, win over the template of tokenizer.json.
void apply_add_flags(TokenizerFolder& folder, TokenizerParts& parts) {
    const SortedJson& config = folder.config("tokenizer_config.json");
    const std::string where = folder.path("tokenizer_config.json");
    if (parts.special.bos) {
        const int32_t bos = *parts.special.bos;
        const bool present = !parts.prefix.empty() && parts.prefix.front() == bos;
        const bool wanted = bool_member(config, "add_bos_token", present, where);
        if (wanted && !present) parts.prefix.insert(parts.prefix.begin(), bos);
        if (!wanted && present) parts.prefix.erase(parts.prefix.begin());
    }
    if (parts.special.eos) {
        const int32_t eos = *parts.special.eos;
        const bool present = !parts.suffix.empty() && parts.suffix.back() == eos;
        const bool wanted = bool_member(config, "add_eos_token", present, where);
        if (wanted && !present) parts.suffix.push_back(eos);
        if (!wanted && present) parts.suffix.pop_back();
    }
}

}  // namespace

void finish_parts(TokenizerFolder& folder, TokenizerParts& parts) {
    const std::string where = folder.path("tokenizer");
    const Vocab& vocab = parts.model.vocab();
    for (int32_t id = 0; id < vocab.end_id(); ++id)
        if (vocab.has(id)) parts.all.add(std::string(vocab.token(id)), id, where);
    for (const AddedToken& token : parts.added_list) parts.all.add(token.content, token.id, where);
    for (const auto* side : {&parts.prefix, &parts.suffix})
        for (const int32_t id : *side)
            if (!parts.all.has(id))
                throw UserError(ExitCode::model, where, "the template uses id {}, which no token has", id);

    SpecialReader reader(folder, parts.all);
    SpecialIds& special = parts.special;
    if (!special.bos) special.bos = reader.find("bos", true);
    if (!special.eos) special.eos = reader.find("eos", true);
    if (!special.pad) special.pad = reader.find("pad", false);
    if (!special.unk) special.unk = reader.find("unk", false);
    if (special.eos) special.eos_ids.push_back(*special.eos);
    for (const int32_t id : reader.numbered("eos"))
        if (std::find(special.eos_ids.begin(), special.eos_ids.end(), id) == special.eos_ids.end())
            special.eos_ids.push_back(id);
    apply_add_flags(folder, parts);
    parts.added = AddedTokens(parts.added_list, parts.normalizer, where);
    for (const AddedToken& token : parts.added_list) {
        const std::string flags = fmt::format("{} {}{}{}{}{} ", token.id, token.single_word, token.lstrip, token.rstrip,
                                              token.normalized, token.special);
        parts.content_hash = add_to_hash(parts.content_hash, flags + token.content);
    }
    parts.content_hash =
        add_to_hash(parts.content_hash, fmt::format("{}; {}; {}", fmt::join(parts.prefix, " "),
                                                    fmt::join(parts.suffix, " "), special.eos.value_or(-1)));
}

}  // namespace windlass
