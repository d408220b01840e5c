// bpe.h: byte-pair encoding of one piece of text (Sennrich et al., "Neural machine translation of rare words with
// subword units", 2016), with the fallbacks that Hugging Face's BPE model has. Immutable and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/vocab.h"

namespace windlass {

struct BpeOptions {
    std::optional<std::string> unknown;  // the token for letters that the vocabulary lacks; without it they vanish
    bool fuse_unknown = false;           // one unknown token for a run of such letters
    bool byte_fallback = false;          // spell such letters as <0xNN> tokens, where the vocabulary has them
    bool ignore_merges = false;          // a piece that is a token stays whole, whatever the merges say
};

using MergePair = std::pair<std::string, std::string>;

class BpeModel {
  public:
    // Merges in order of rank. Throws UserError(model) naming `where` when a merge uses or makes a token that the
    // vocabulary lacks.
    BpeModel(Vocab vocab, const std::vector<MergePair>& merges, BpeOptions options, std::string_view where);

    const Vocab& vocab() const { return vocab_; }
    const BpeOptions& options() const { return options_; }
    std::vector<MergePair> merges() const;  // in order of rank
    // Appends the ids of one piece (valid UTF-8) in O(n log n).
    void encode(std::string_view piece, std::vector<int32_t>& ids) const;
    // The same by merges alone, whatever ignore_merges says.
    void encode_by_merges(std::string_view piece, std::vector<int32_t>& ids) const;

  private:
    struct Merge {
        int32_t rank = 0;
        int32_t id = 0;  // of the token that the pair becomes
    };
    struct Symbol;
    struct Candidate;

    std::vector<Symbol> symbols_of(std::string_view piece) const;
    bool append_bytes(std::string_view letter, std::vector<Symbol>& symbols) const;
    std::optional<int32_t> id_of_letter(char32_t value, std::string_view letter) const;
    const Merge* merge_of(int32_t left, int32_t right) const;

    // Letters below this, which hold the whole byte alphabet, are looked up in a table.
    static constexpr char32_t kDirectLetters = 0x200;

    Vocab vocab_;
    BpeOptions options_;
    std::optional<int32_t> unknown_;
    std::array<int32_t, 256> byte_ids_{};               // of <0xNN>, -1 where absent
    std::array<int32_t, kDirectLetters> letter_ids_{};  // of single letters, -1 where absent
    std::unordered_map<uint64_t, Merge> merges_;        // by left id << 32 | right id
};

}  // namespace windlass
