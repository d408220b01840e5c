#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace windlass {
namespace {

// An unfinished character is at most four byte tokens; what is held back longer is not going to become one.
constexpr size_t kHeldBackMax = 8;

}  // namespace

// The text of new ids is the difference between decoding them after their predecessors and decoding those alone:
// some decoders treat the first token of a text in a special way.
std::string StreamDecoder::push(int32_t id) {
    if (skip_special_ && tokenizer_->is_special(id)) return "";
    ids_.push_back(id);
    const std::string text = tokenizer_->decode(ids_, skip_special_);
    const bool unfinished = text.ends_with(kReplacementCharacter);
    if (unfinished && ids_.size() - given_ < kHeldBackMax) return "";
    return emit(text);
}

std::string StreamDecoder::finish() {
    const std::string rest = emit(tokenizer_->decode(ids_, skip_special_));
    ids_.clear();
    given_ = 0;
    return rest;
}

std::string StreamDecoder::emit(std::string_view text) {
    const std::string before = tokenizer_->decode(std::span(ids_).first(given_), skip_special_);
    if (!text.starts_with(before)) text = "";  // only an ill-formed end can change
    std::string fresh(text.size() > before.size() ? text.substr(before.size()) : "");
    // The text given out now becomes the context of the next ids; an id without text yet keeps the old one.
    if (fresh.empty()) return fresh;
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(given_));
    given_ = ids_.size();
    return fresh;
}

}  // namespace windlass
