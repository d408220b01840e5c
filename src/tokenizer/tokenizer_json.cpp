// tokenizer_json.cpp: Hugging Face's tokenizer.json.
#include "base/printable.h"
#include "tokenizer/parts.h"

namespace windlass {
namespace {

using Where = std::string_view;

// "left right", or ["left", "right"] as newer files write it, since a token may hold a space.
MergePair read_merge(const SortedJson& json, Where where) {
    if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string())
        return {json[0].get<std::string>(), json[1].get<std::string>()};
    if (json.is_string()) {
        const auto& line = json.get_ref<const std::string&>();
        const size_t space = line.find(' ');
        if (space != std::string::npos && line.find(' ', space + 1) == std::string::npos)
            return {line.substr(0, space), line.substr(space + 1)};
    }
    throw UserError(ExitCode::model, where, "a merge is not a pair of tokens: {}",
                    excerpt(json.dump(-1, ' ', false, SortedJson::error_handler_t::replace)));
}

void refuse_text(const SortedJson& json, const char* key, Where where) {
    if (!string_member(json, key, "", where).empty())
        throw UserError(ExitCode::model, where, "the model's \"{}\" is not supported", key);
}

}  // namespace

Vocab read_vocab(const SortedJson& json, Where where) {
    if (!json.is_object()) throw UserError(ExitCode::model, where, "the model has no vocab object");
    if (json.size() > static_cast<size_t>(kVocabSizeMax))
        throw UserError(ExitCode::model, where, "the vocabulary has {} entries, at most {} are read", json.size(),
                        kVocabSizeMax);
    Vocab vocab;
    for (const auto& [token, id] : json.items()) {
        const std::optional<int64_t> integer = integer_of(id);
        if (!integer) throw UserError(ExitCode::model, where, "the id of \"{}\" is not an integer", excerpt(token));
        vocab.add(token, *integer, where);
    }
    return vocab;
}

AddedToken read_added_token(const SortedJson& json, Where where) {
    check_members(json, "an added token",
                  {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"}, where);
    AddedToken token;
    token.content = string_member(json, "content", "", where);
    token.special = bool_member(json, "special", false, where);
    token.single_word = bool_member(json, "single_word", false, where);
    token.lstrip = bool_member(json, "lstrip", false, where);
    token.rstrip = bool_member(json, "rstrip", false, where);
    token.normalized = bool_member(json, "normalized", !token.special, where);
    return token;
}

BpeModel read_bpe(const SortedJson& json, Where where) {
    const std::string type = string_member(json, "type", json.contains("merges") ? "BPE" : "", where);
    if (type != "BPE")
        throw UserError(ExitCode::model, where, "the tokenizer model \"{}\" is not supported", excerpt(type));
    check_members(json, "the model",
                  {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"},
                  where);
    refuse_text(json, "continuing_subword_prefix", where);
    refuse_text(json, "end_of_word_suffix", where);
    if (const SortedJson& dropout = member(json, "dropout"); !dropout.is_null() && dropout != 0)
        throw UserError(ExitCode::model, where, "the model's dropout of merges is not supported");
    BpeOptions options;
    if (const auto unknown = string_member(json, "unk_token", "", where); !unknown.empty()) options.unknown = unknown;
    options.fuse_unknown = bool_member(json, "fuse_unk", false, where);
    options.byte_fallback = bool_member(json, "byte_fallback", false, where);
    options.ignore_merges = bool_member(json, "ignore_merges", false, where);
    const SortedJson& list = member(json, "merges");
    if (!list.is_array()) throw UserError(ExitCode::model, where, "the model has no list of merges");
    std::vector<MergePair> merges;
    merges.reserve(list.size());
    for (const auto& merge : list) merges.push_back(read_merge(merge, where));
    return BpeModel(read_vocab(member(json, "vocab"), where), merges, std::move(options), where);
}

// The tokenizers library numbers added tokens itself: one that the model has keeps its id there, the others follow
// after the model's tokens, in order. A file that says otherwise means other ids to it than to us.
void check_added_ids(const TokenizerParts& parts, const std::string& where) {
    auto next = static_cast<int32_t>(parts.model.vocab().count());
    for (const AddedToken& token : parts.added_list) {
        const std::optional<int32_t> known = parts.model.vocab().find(token.content);
        const int32_t expected = known ? *known : next++;
        if (token.id == expected) continue;
        throw UserError(ExitCode::model, where,
                        "the added token \"{}\" is said to have the id {}, but other loaders give it {}",
                        excerpt(token.content), token.id, expected)
            .hint("put it into the model's vocab with its id, or save the tokenizer again with transformers");
    }
}

TokenizerParts read_tokenizer_json(TokenizerFolder& folder) {
    const std::string where = folder.path("tokenizer.json");
    const SortedJson json =
        parse_sorted_json(folder.text("tokenizer.json", kTokenizerBytesMax), where, ExitCode::model);
    check_members(json, "the file",
                  {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"},
                  where);
    TokenizerParts parts(read_bpe(member(json, "model"), where));
    parts.normalizer = read_normalizer(member(json, "normalizer"), where);
    parts.pre_tokenizer = read_pre_tokenizer(member(json, "pre_tokenizer"), where);
    parts.decoder = read_decoder(member(json, "decoder"), where);
    PostTemplate post = read_post_processor(member(json, "post_processor"), where);
    parts.prefix = std::move(post.prefix);
    parts.suffix = std::move(post.suffix);
    const SortedJson& added = member(json, "added_tokens");
    if (!added.is_null() && !added.is_array())
        throw UserError(ExitCode::model, where, "\"added_tokens\" is not a list");
    for (const auto& entry : added) {
        AddedToken token = read_added_token(entry, where);
        const int64_t id = int_member(entry, "id", where);
        if (id < 0 || id >= kVocabSizeMax) throw UserError(ExitCode::model, where, "an added token has the id {}", id);
        token.id = static_cast<int32_t>(id);
        if (!token.content.empty()) parts.added_list.push_back(std::move(token));
    }
    check_added_ids(parts, where);
    for (const char* const key : {"normalizer", "pre_tokenizer", "decoder", "model"})
        parts.content_hash = add_to_hash(parts.content_hash, member(json, key).dump());
    return parts;
}

}  // namespace windlass
