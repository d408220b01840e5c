#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/unicode_class.h"

namespace windlass {
namespace {

// Bounds the time that matching spends at one byte of the text. Real ones have less than 100 bytes.
constexpr size_t kContentBytesMax = 1024;

// Where the white space at the end of this text begins.
size_t right_space_begin(std::string_view text) {
    while (!text.empty()) {
        const CodePoint point = last_code_point(text);
        if (!is_white_space(point.value)) break;
        text.remove_suffix(point.bytes);
    }
    return text.size();
}

// How many bytes of white space this text begins with.
size_t left_space_bytes(std::string_view text) {
    size_t bytes = 0;
    while (bytes < text.size()) {
        const CodePoint point = first_code_point(text.substr(bytes));
        if (!is_white_space(point.value)) break;
        bytes += point.bytes;
    }
    return bytes;
}

bool touches_words(std::string_view text, Span match) {
    const auto left = text.substr(0, match.begin);
    const auto right = text.substr(match.end);
    return (!left.empty() && is_word(last_code_point(left).value)) ||
           (!right.empty() && is_word(first_code_point(right).value));
}

}  // namespace

void WordFinder::add(std::string_view word, int32_t index) {
    if (word.empty()) return;
    starts_.set(static_cast<uint8_t>(word[0]));
    int32_t node = 0;
    for (const char byte : word) {
        const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
        const auto [entry, is_new] = next_.try_emplace(key, static_cast<int32_t>(word_of_.size()));
        if (is_new) word_of_.push_back(-1);
        node = entry->second;
    }
    if (word_of_[node] < 0) word_of_[node] = index;
}

WordFinder::Hit WordFinder::longest_at(std::string_view text, size_t at) const {
    Hit hit;
    if (!starts_.test(static_cast<uint8_t>(text[at]))) return hit;
    int32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
        const auto entry = next_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[i]));
        if (entry == next_.end()) break;
        node = entry->second;
        if (word_of_[node] >= 0) hit = {word_of_[node], i + 1 - at};
    }
    return hit;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, std::string_view where)
    : tokens_(std::move(tokens)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
        const AddedToken& token = tokens_[i];
        if (token.content.size() > kContentBytesMax)
            throw UserError(ExitCode::model, where, "the added token {} has {} bytes, at most {} are read", token.id,
                            token.content.size(), kContentBytesMax);
        special_[token.id] = token.special;
        if (token.normalized)
            normalized_.add(normalizer.apply(token.content, kContentBytesMax), static_cast<int32_t>(i));
        else
            raw_.add(token.content, static_cast<int32_t>(i));
    }
}

bool AddedTokens::is_special(int32_t id) const {
    const auto entry = special_.find(id);
    return entry != special_.end() && entry->second;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, const WordFinder& finder) const {
    std::vector<TextPart> parts;
    size_t done = 0;  // the end of the last part
    for (size_t at = 0; at < text.size();) {
        const WordFinder::Hit hit = finder.longest_at(text, at);
        if (hit.word < 0) {
            ++at;
            continue;
        }
        const AddedToken& token = tokens_[static_cast<size_t>(hit.word)];
        Span span{at, at + hit.bytes};
        at = span.end;
        if (token.single_word && touches_words(text, span)) continue;
        if (span.begin < done) continue;  // inside the white space that the token before has taken
        if (token.lstrip) span.begin = done + right_space_begin(text.substr(done, span.begin - done));
        if (token.rstrip) span.end += left_space_bytes(text.substr(span.end));
        if (done < span.begin) parts.push_back({{done, span.begin}, std::nullopt});
        parts.push_back({span, token.id});
        done = span.end;
    }
    if (done < text.size()) parts.push_back({{done, text.size()}, std::nullopt});
    return parts;
}

}  // namespace windlass
