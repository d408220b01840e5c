#include "tokenizer/tokenizer.h"

#include <xxhash.h>

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/parts.h"

namespace windlass {

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(FileSystem& files, const std::string& path) {
    TokenizerFolder folder(files, path);
    const auto finish = [&](TokenizerParts parts) {
        finish_parts(folder, parts);
        return Tokenizer(std::make_unique<const TokenizerParts>(std::move(parts)));
    };
    if (folder.has("tokenizer.json")) return finish(read_tokenizer_json(folder));
    if (folder.has("vocab.json") && folder.has("merges.txt")) return finish(read_vocab_merges(folder));
    if (folder.has("tokenizer.model"))
        throw UserError(ExitCode::model, folder.path("tokenizer.model"),
                        "the folder has a SentencePiece or tiktoken model and no tokenizer.json")
            .hint(
                "load and save the tokenizer once with transformers (AutoTokenizer.from_pretrained(FOLDER)"
                ".save_pretrained(FOLDER)), which writes tokenizer.json");
    throw UserError(ExitCode::model, path,
                    "the folder has no tokenizer: neither tokenizer.json nor vocab.json with merges.txt")
        .hint("copy the tokenizer files of the base model into it");
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
    std::string repaired;
    if (!is_valid_utf8(text)) text = repaired = to_valid_utf8(text);
    std::vector<int32_t> ids;
    if (add_special) ids = parts_->prefix;
    for (const TextPart& raw : parts_->added.split_raw(text)) {
        if (raw.token) {
            ids.push_back(*raw.token);
            continue;
        }
        const std::string normal = parts_->normalizer.apply(text.substr(raw.span.begin, raw.span.end - raw.span.begin));
        for (const TextPart& part : parts_->added.split_normalized(normal)) {
            if (part.token) {
                ids.push_back(*part.token);
                continue;
            }
            const bool starts_input = raw.span.begin == 0 && part.span.begin == 0;
            const Pieces pieces = parts_->pre_tokenizer.cut(
                normal.substr(part.span.begin, part.span.end - part.span.begin), starts_input);
            for (const Span& span : pieces.spans)
                parts_->model.encode(std::string_view(pieces.text).substr(span.begin, span.end - span.begin), ids);
        }
    }
    if (add_special) ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
    return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const int32_t id : ids) {
        if (!parts_->all.has(id) || (skip_special && parts_->added.is_special(id))) continue;
        tokens.emplace_back(parts_->all.token(id));
    }
    return parts_->decoder.decode(std::move(tokens));
}

int32_t Tokenizer::vocab_size() const {
    return parts_->all.end_id();
}
std::optional<int32_t> Tokenizer::bos() const {
    return parts_->special.bos;
}
std::optional<int32_t> Tokenizer::eos() const {
    return parts_->special.eos;
}
std::optional<int32_t> Tokenizer::pad() const {
    return parts_->special.pad;
}
std::optional<int32_t> Tokenizer::unk() const {
    return parts_->special.unk;
}
const std::vector<int32_t>& Tokenizer::eos_ids() const {
    return parts_->special.eos_ids;
}
std::span<const int32_t> Tokenizer::prefix() const {
    return parts_->prefix;
}
std::span<const int32_t> Tokenizer::suffix() const {
    return parts_->suffix;
}
std::string Tokenizer::id_to_token(int32_t id) const {
    return std::string(parts_->all.token(id));
}
bool Tokenizer::is_special(int32_t id) const {
    return parts_->added.is_special(id);
}
uint64_t Tokenizer::content_hash() const {
    if (rows_ >= vocab_size()) return parts_->content_hash;
    return XXH3_64bits_withSeed(&rows_, sizeof(rows_), parts_->content_hash);
}
void Tokenizer::require_rows(std::span<const int32_t> ids, std::string_view where) const {
    const auto bad = std::ranges::find_if(ids, [&](int32_t id) { return id >= rows_; });
    if (bad == ids.end()) return;
    throw UserError(ExitCode::data, where, "uses the token \"{}\", whose id is {}: the model has {} rows",
                    id_to_token(*bad), *bad, rows_)
        .hint("a text without that token, or the tokenizer files that belong to these weights");
}

}  // namespace windlass
