// hf_config.h: a model's config.json, read with typed getters that remember which keys were read.
//
// A family reads what it implements, then calls finish(), which throws if a key was not read and may change the
// mathematics. transformers reads a finite list of keys for each model type: any other key changes nothing, unless the
// model ships with its own code (auto_map). null counts as absent. Every complaint is a UserError(model) naming file
// and key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

// One key and its other spellings. Where a file holds several, they must agree.
class KeyNames {
  public:
    KeyNames(const char* name) : names_{name} {}
    KeyNames(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
    const std::vector<std::string>& all() const { return names_; }
    const std::string& first() const { return names_.front(); }

  private:
    std::vector<std::string> names_;
};

// Copies are views of the same document and share its record of keys read: of one thread.
class HfConfig {
  public:
    static constexpr int64_t kBytesMax = int64_t{4} << 20;

    static HfConfig parse(std::string text, std::string where);
    // A copy of the whole document, with no key marked as read: for another thread.
    HfConfig apart() const;

    const std::string& where() const;    // "models/x/config.json", with "text_config" after it in a section
    const std::string& to_text() const;  // the original document, unchanged
    std::string model_type() const;      // required

    bool has(const KeyNames& keys) const;       // present and not null; counts as read only once a getter takes it
    bool mentions(std::string_view key) const;  // present, and null or not

    // Required values; each lies in [min, max]. An integer may be written as 32.0.
    int64_t integer(const KeyNames& keys, int64_t min, int64_t max) const;
    double number(const KeyNames& keys, double min, double max) const;
    std::string text(const KeyNames& keys) const;
    std::vector<std::string> texts(const KeyNames& keys) const;  // a list of strings, "layer_types"

    // The same where the key may be absent.
    std::optional<int64_t> find_integer(const KeyNames& keys, int64_t min, int64_t max) const;
    std::optional<double> find_number(const KeyNames& keys, double min, double max) const;
    std::optional<std::string> find_text(const KeyNames& keys) const;
    std::optional<std::vector<std::string>> find_texts(const KeyNames& keys) const;
    std::optional<std::vector<double>> find_numbers(const KeyNames& keys, double min, double max) const;  // a list
    bool flag(const KeyNames& keys, bool fallback) const;

    // A nested object, "text_config". finish() of the whole covers the sections that were opened.
    HfConfig section(std::string_view key) const;
    std::vector<std::string> section_keys() const;  // the keys of this object that hold objects

    // From here on the document holds none of these keys; "rope_scaling.mscale" is one of a section. Copies are views
    // of it. to_text() stays. Before the first section is opened.
    void ignore(std::span<const std::string> keys);
    const std::vector<std::string>& ignored() const;  // that it held

    // Throws when a key was neither read, nor known to leave the forward pass alone, nor in `neutral`, nor known to be
    // switched off by its value (use_sliding_window false), nor one that transformers does not read either: those are
    // listed by unread(). Dropout keys pass and are listed by dropouts().
    void finish(std::span<const std::string_view> neutral = {}) const;
    const std::vector<std::string>& unread() const;
    std::vector<std::string> dropouts() const;  // "attn_pdrop = 0.1": non-zero dropouts of this object, not applied

  private:
    struct Document;
    struct Node;
    HfConfig(std::shared_ptr<Document> document, Node* node) : document_(std::move(document)), node_(node) {}

    std::shared_ptr<Document> document_;
    Node* node_;
};

}  // namespace windlass
