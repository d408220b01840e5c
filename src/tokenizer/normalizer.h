// normalizer.h: what a tokenizer does to a text before it looks for tokens. Immutable and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"

namespace windlass {

struct NfcStep {};  // canonical composition
struct PrependStep {
    std::string text;  // put before every text that is not empty
};
struct ReplaceStep {
    Pattern pattern;
    std::string replacement;
};
using NormalizerStep = std::variant<NfcStep, PrependStep, ReplaceStep>;

class Normalizer {
  public:
    Normalizer() = default;
    explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
    // Valid UTF-8 in, valid UTF-8 out. A tokenizer is hostile input: what grows, at any step, beyond kGrowthMax times
    // the text and `room` bytes is UserError(data).
    std::string apply(std::string_view text, size_t room = kRoom) const;
    const std::vector<NormalizerStep>& steps() const { return steps_; }

    static constexpr size_t kGrowthMax = 16;
    static constexpr size_t kRoom = size_t{1} << 20;

  private:
    std::vector<NormalizerStep> steps_;
};

// Unicode normalisation form C of valid UTF-8, in O(n log n) also on endless runs of combining marks.
std::string to_nfc(std::string_view text);

}  // namespace windlass
