// tokenizer.h: text to token ids and back, exactly as Hugging Face tokenizers do it.
//
// Reads tokenizer.json, or vocab.json with merges.txt, of a model folder. Everything in such a file either has its
// exact meaning here or stops the load by its name: a tokenizer that almost fits is worse than none.
// Immutable and thread-safe after load; move-only.
//
// Input that is not valid UTF-8 is read with U+FFFD in place of each ill-formed part (see base/utf8.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

// The most that tokenizer_config.json and its like may have.
inline constexpr int64_t kTokenizerConfigBytesMax = int64_t{16} << 20;

struct TokenizerParts;

class Tokenizer {
  public:
    // Throws UserError(model) that names the file, and the part of it that we cannot render.
    static Tokenizer load(FileSystem& files, const std::string& folder);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // The ids of a text. Special tokens spelled out in the text become themselves. With add_special the tokenizer's
    // own template is put around it: prefix() before, suffix() after.
    std::vector<int32_t> encode(std::string_view text, bool add_special) const;
    // The text of some ids, always valid UTF-8. Ids that no token has say nothing.
    std::string decode(std::span<const int32_t> ids, bool skip_special) const;

    // One past the highest id. A model may have more rows than that: padding.
    int32_t vocab_size() const;
    // The model's tables have this many rows, maybe fewer than there are ids.
    void limit_rows(int32_t rows) { rows_ = rows; }
    // UserError(data) that names `where` and the first id that the model has no row for.
    void require_rows(std::span<const int32_t> ids, std::string_view where) const;
    // The special ids that the folder's configuration names.
    std::optional<int32_t> bos() const;
    std::optional<int32_t> eos() const;
    std::optional<int32_t> pad() const;
    std::optional<int32_t> unk() const;
    // All ids that end a generation: eos() first, then those of generation_config.json, else of config.json.
    const std::vector<int32_t>& eos_ids() const;
    std::span<const int32_t> prefix() const;
    std::span<const int32_t> suffix() const;

    // The spelling of a token, empty when no token has this id.
    std::string id_to_token(int32_t id) const;
    bool is_special(int32_t id) const;
    // Equal for tokenizers that make the same ids of every text, however their files are written: XXH3 of the parts
    // that were read, the ids around a text, eos(), and the number of rows where it leaves ids out. bos(), pad(), unk()
    // and eos_ids() are not in it: templates of chats alone use them.
    uint64_t content_hash() const;
    // What it is made of (tokenizer/parts.h), for this floor.
    const TokenizerParts& parts() const { return *parts_; }

  private:
    explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
    std::unique_ptr<const TokenizerParts> parts_;
    int32_t rows_ = std::numeric_limits<int32_t>::max();
};

// Decodes ids as they come. push() returns the text that has become certain: bytes of an unfinished character and
// spaces that depend on what follows are held back.
class StreamDecoder {
  public:
    StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
        : tokenizer_(&tokenizer), skip_special_(skip_special) {}
    std::string push(int32_t id);
    // What is still held back, ill-formed or not.
    std::string finish();

  private:
    std::string emit(std::string_view text);

    const Tokenizer* tokenizer_;
    bool skip_special_;
    std::vector<int32_t> ids_;  // those whose text was given out last, then those held back
    size_t given_ = 0;          // how many of ids_ were given out
};

}  // namespace windlass
