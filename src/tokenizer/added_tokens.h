// added_tokens.h: tokens that are found literally in the text, before the model sees it: <s>, <|im_end|>, ...
//
// Matching is leftmost-longest. Tokens that are not `normalized` are looked for in the text as given; the others
// afterwards, in the normalised text, by their normalised content. Immutable and thread-safe once built.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/normalizer.h"
#include "tokenizer/pattern.h"

namespace windlass {

struct AddedToken {
    std::string content;
    int32_t id = 0;
    bool single_word = false;  // not where it touches a word character
    bool lstrip = false;       // takes the white space on its left with it
    bool rstrip = false;       // and on its right
    bool normalized = false;
    bool special = false;  // left out by decode(skip_special)
};

// A part of a text: an added token, or text between such tokens.
struct TextPart {
    Span span;
    std::optional<int32_t> token;
};

// Finds the words of a fixed list.
class WordFinder {
  public:
    // The longest word that starts at this byte of the text: (index of the word, its length).
    struct Hit {
        int32_t word = -1;
        size_t bytes = 0;
    };
    void add(std::string_view word, int32_t index);
    Hit longest_at(std::string_view text, size_t at) const;

  private:
    std::unordered_map<uint64_t, int32_t> next_;  // by node << 8 | byte
    std::vector<int32_t> word_of_ = {-1};         // by node
    std::bitset<256> starts_;                     // bytes with which some word begins
};

class AddedTokens {
  public:
    AddedTokens() = default;
    // Throws UserError(model) naming `where` when a content is too long to be a token.
    AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, std::string_view where);

    std::vector<TextPart> split_raw(std::string_view text) const { return split(text, raw_); }
    std::vector<TextPart> split_normalized(std::string_view text) const { return split(text, normalized_); }
    bool is_special(int32_t id) const;
    const std::vector<AddedToken>& list() const { return tokens_; }

  private:
    std::vector<TextPart> split(std::string_view text, const WordFinder& finder) const;

    std::vector<AddedToken> tokens_;
    std::unordered_map<int32_t, bool> special_;  // by id
    WordFinder raw_;
    WordFinder normalized_;
};

}  // namespace windlass
