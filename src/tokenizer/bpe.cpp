#include "tokenizer/bpe.h"

#include <queue>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace windlass {

// A current token of the piece, in a list linked by index; id -1 marks one merged into its left neighbour.
struct BpeModel::Symbol {
    int32_t id = 0;
    int32_t left = -1;
    int32_t right = -1;
};

// A merge that was possible when it was queued. The lowest rank goes first, of equal ranks the leftmost.
struct BpeModel::Candidate {
    Merge merge;
    int32_t at = 0;  // index of the left symbol
    bool operator<(const Candidate& other) const {
        return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
};

namespace {

constexpr size_t kPieceBytesMax = size_t{1} << 30;

uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeModel::BpeModel(Vocab vocab, const std::vector<MergePair>& merges, BpeOptions options, std::string_view where)
    : vocab_(std::move(vocab)), options_(std::move(options)) {
    const auto need = [&](const std::string& token, size_t rank) {
        const auto id = vocab_.find(token);
        if (!id)
            throw UserError(ExitCode::model, where, "merge {} needs the token \"{}\", which the vocabulary lacks", rank,
                            excerpt(token));
        return *id;
    };
    merges_.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const auto& [left, right] = merges[rank];
        const int32_t merged = need(left + right, rank);
        merges_[key_of(need(left, rank), need(right, rank))] = {static_cast<int32_t>(rank), merged};
    }
    if (options_.unknown) unknown_ = need(*options_.unknown, 0);
    for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocab_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
    for (char32_t letter = 0; letter < kDirectLetters; ++letter) {
        std::string text;
        append_utf8(text, letter);
        letter_ids_[letter] = vocab_.find(text).value_or(-1);
    }
}

std::optional<int32_t> BpeModel::id_of_letter(char32_t value, std::string_view letter) const {
    if (value >= kDirectLetters) return vocab_.find(letter);
    if (letter_ids_[value] < 0) return std::nullopt;
    return letter_ids_[value];
}

const BpeModel::Merge* BpeModel::merge_of(int32_t left, int32_t right) const {
    const auto entry = merges_.find(key_of(left, right));
    return entry == merges_.end() ? nullptr : &entry->second;
}

// All bytes of the letter as <0xNN> tokens, or nothing when one is missing.
bool BpeModel::append_bytes(std::string_view letter, std::vector<Symbol>& symbols) const {
    for (const char byte : letter)
        if (byte_ids_[static_cast<uint8_t>(byte)] < 0) return false;
    for (const char byte : letter) symbols.push_back({byte_ids_[static_cast<uint8_t>(byte)]});
    return true;
}

// An unknown token is written when the next letter is known or, unless they fuse, unknown too; letters that fall
// back to bytes in between go first. The order is Hugging Face's.
std::vector<BpeModel::Symbol> BpeModel::symbols_of(std::string_view piece) const {
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    bool unknown_waits = false;
    const auto write_unknown = [&] {
        if (unknown_waits) symbols.push_back({*unknown_});
        unknown_waits = false;
    };
    while (!piece.empty()) {
        const CodePoint point = first_code_point(piece);
        const std::string_view letter = piece.substr(0, point.bytes);
        piece.remove_prefix(point.bytes);
        if (const auto id = id_of_letter(point.value, letter)) {
            write_unknown();
            symbols.push_back({*id});
        } else if (!(options_.byte_fallback && append_bytes(letter, symbols)) && unknown_) {
            if (!options_.fuse_unknown) write_unknown();
            unknown_waits = true;
        }
    }
    write_unknown();
    for (size_t i = 0; i < symbols.size(); ++i) {
        symbols[i].left = static_cast<int32_t>(i) - 1;
        symbols[i].right = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
    }
    return symbols;
}

std::vector<MergePair> BpeModel::merges() const {
    std::vector<std::pair<int32_t, uint64_t>> ranked;
    for (const auto& [key, merge] : merges_) ranked.emplace_back(merge.rank, key);
    std::sort(ranked.begin(), ranked.end());
    std::vector<MergePair> pairs;
    for (const auto& [rank, key] : ranked)
        pairs.emplace_back(vocab_.token(static_cast<int32_t>(key >> 32)), vocab_.token(static_cast<int32_t>(key)));
    return pairs;
}

void BpeModel::encode(std::string_view piece, std::vector<int32_t>& ids) const {
    WINDLASS_CHECK(piece.size() <= kPieceBytesMax, "a piece of {} bytes", piece.size());
    if (options_.ignore_merges) {
        if (const auto whole = vocab_.find(piece)) return ids.push_back(*whole);
    }
    encode_by_merges(piece, ids);
}

void BpeModel::encode_by_merges(std::string_view piece, std::vector<int32_t>& ids) const {
    std::vector<Symbol> symbols = symbols_of(piece);
    std::priority_queue<Candidate> queue;
    const auto consider = [&](int32_t at) {
        if (at < 0 || symbols[at].right < 0) return;
        if (const Merge* merge = merge_of(symbols[at].id, symbols[symbols[at].right].id)) queue.push({*merge, at});
    };
    for (size_t i = 0; i < symbols.size(); ++i) consider(static_cast<int32_t>(i));
    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Symbol& left = symbols[best.at];
        if (left.id < 0 || left.right < 0) continue;
        Symbol& right = symbols[left.right];
        const Merge* merge = merge_of(left.id, right.id);
        if (merge == nullptr || merge->id != best.merge.id) continue;  // its symbols have changed since
        left.id = merge->id;
        left.right = right.right;
        right.id = -1;
        if (left.right >= 0) symbols[left.right].left = best.at;
        consider(left.left);
        consider(best.at);
    }
    for (const Symbol& symbol : symbols)
        if (symbol.id >= 0) ids.push_back(symbol.id);
}

}  // namespace windlass
