// parts.h: what a Tokenizer is made of, and the readers that make it. For .cpp files of this floor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace windlass {

// The ids that the configuration files of a folder name.
struct SpecialIds {
    std::optional<int32_t> bos;
    std::optional<int32_t> eos;
    std::optional<int32_t> pad;
    std::optional<int32_t> unk;
    std::vector<int32_t> eos_ids;
};

struct TokenizerParts {
    TokenizerParts(BpeModel bpe) : model(std::move(bpe)) {}

    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    BpeModel model;
    std::vector<AddedToken> added_list;
    AddedTokens added;  // of added_list; made last
    Vocab all;          // tokens of the model and added ones
    Decoder decoder;
    std::vector<int32_t> prefix;
    std::vector<int32_t> suffix;
    SpecialIds special;
    uint64_t content_hash = 0;  // of all above that ids of a text depend on
};

// A hash of parts in order, from the one of those before.
uint64_t add_to_hash(uint64_t hash, std::string_view part);

// The files of a model folder that a tokenizer is read from, each read once.
class TokenizerFolder {
  public:
    TokenizerFolder(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
    bool has(const std::string& name) const;
    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    // The text of a file (UserError past max_bytes).
    const std::string& text(const std::string& name, int64_t max_bytes);
    // A small configuration file; an empty object when it is absent.
    const SortedJson& config(const std::string& name);

  private:
    FileSystem& files_;
    std::string folder_;
    std::map<std::string, std::string> texts_;
    std::map<std::string, SortedJson> configs_;
};

inline constexpr int64_t kTokenizerBytesMax = int64_t{256} << 20;

// tokenizer.json; vocab.json and merges.txt. Both leave `all`, `added` and `special` to finish_parts, and hash what
// they made of their files: not the bytes, which spaces and settings of other programs change too.
TokenizerParts read_tokenizer_json(TokenizerFolder& folder);
TokenizerParts read_vocab_merges(TokenizerFolder& folder);
// Adds what the configuration files say: special ids, add_bos_token, add_eos_token.
void finish_parts(TokenizerFolder& folder, TokenizerParts& parts);

// Readers of the parts of tokenizer.json; `where` is its path. Each takes null for "absent".
Normalizer read_normalizer(const SortedJson& json, std::string_view where);
PreTokenizer read_pre_tokenizer(const SortedJson& json, std::string_view where);
Decoder read_decoder(const SortedJson& json, std::string_view where);
struct PostTemplate {
    std::vector<int32_t> prefix;
    std::vector<int32_t> suffix;
};
PostTemplate read_post_processor(const SortedJson& json, std::string_view where);
AddedToken read_added_token(const SortedJson& json, std::string_view where);
Vocab read_vocab(const SortedJson& json, std::string_view where);
BpeModel read_bpe(const SortedJson& json, std::string_view where);

// Typed look-ups with a precise error. A missing or null member gives the fallback.
bool bool_member(const SortedJson& json, const char* key, bool fallback, std::string_view where);
std::string string_member(const SortedJson& json, const char* key, const std::string& fallback, std::string_view where);
int64_t int_member(const SortedJson& json, const char* key, std::string_view where);
// Throws when an object has a member that is not among those we know.
void check_members(const SortedJson& json, std::string_view part, std::initializer_list<std::string_view> known,
                   std::string_view where);
// A member, or null.
const SortedJson& member(const SortedJson& json, const char* key);

PreTokenizerStep byte_level_step(bool add_prefix_space, bool use_regex);

}  // namespace windlass
