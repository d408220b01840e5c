// vocab.h: tokens and their ids. Immutable once filled; look-ups are thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace windlass {

inline constexpr int32_t kVocabSizeMax = 4 << 20;

// Lets a map of strings be asked with a view.
struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

class Vocab {
  public:
    Vocab() = default;
    Vocab(Vocab&&) = default;
    Vocab& operator=(Vocab&&) = default;
    Vocab(const Vocab&) = delete;
    Vocab& operator=(const Vocab&) = delete;

    // Throws UserError(model) naming `where` when the id is out of range or either side is already taken by another.
    // Adding the same pair twice is fine.
    void add(std::string token, int64_t id, std::string_view where);

    std::optional<int32_t> find(std::string_view token) const;
    // The token, empty when no token has this id.
    std::string_view token(int32_t id) const;
    bool has(int32_t id) const;
    int32_t end_id() const { return static_cast<int32_t>(tokens_.size()); }  // one past the highest id
    size_t count() const { return ids_.size(); }

  private:
    std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;
    std::vector<const std::string*> tokens_;  // by id; keys of ids_, which stay where they are
};

}  // namespace windlass
