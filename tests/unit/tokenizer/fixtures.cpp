#include "tests/unit/tokenizer/fixtures.h"

#include <unistd.h>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/utf8.h"
#include "tests/place.h"
#include "tokenizer/byte_alphabet.h"

namespace windlass::fixtures {

namespace fs = std::filesystem;

std::string shared(const std::string& path) {
    const std::string full = shared_data(path);
    return fs::exists(full) ? full : "";
}

TempFolder::TempFolder() {
    static std::atomic<int> count = 0;
    path_ = (fs::temp_directory_path() / fmt::format("windlass_text_{}_{}", getpid(), count++)).string();
    fs::create_directories(path_);
}

TempFolder::~TempFolder() {
    fs::remove_all(path_);
}

std::string TempFolder::write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
    return path_ + "/" + name;
}

void TempFolder::copy(const std::string& from, const std::string& name) const {
    fs::copy_file(from, path_ + "/" + name);
}

std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
}

Tokenizer load_json(const Json& tokenizer_json, const Json& config) {
    TempFolder folder;
    folder.write("tokenizer.json", tokenizer_json.dump());
    if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
    return Tokenizer::load(real_files(), folder.path());
}

Tokenizer load_shared(const std::string& from, const std::vector<std::pair<std::string, std::string>>& names) {
    TempFolder folder;
    for (const auto& [name, source] : names) folder.copy(shared(from + "/" + source), name);
    return Tokenizer::load(real_files(), folder.path());
}

namespace {

// ---- SentencePiece: the few fields of its protocol buffer that matter ----

struct Piece {
    std::string text;
    float score = 0;
    uint64_t type = 1;  // 1 normal, 2 unknown, 3 control, 6 byte
};

uint64_t varint(std::string_view& in) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<uint8_t>(in[0]);
        in.remove_prefix(1);
        value |= static_cast<uint64_t>(byte & 0x7F) << shift;
        if (byte < 0x80) return value;
    }
}

// Calls field(number, bytes or, for numbers, the eight bytes of the value) for each field of a message.
template <typename Field>
void for_each_field(std::string_view in, Field field) {
    while (!in.empty()) {
        const uint64_t tag = varint(in);
        if ((tag & 7) == 0) {
            const uint64_t value = varint(in);
            field(tag >> 3, std::string_view(reinterpret_cast<const char*>(&value), 8));
            continue;
        }
        const size_t bytes = (tag & 7) == 2 ? varint(in) : (tag & 7) == 5 ? 4 : 8;
        field(tag >> 3, in.substr(0, bytes));
        in.remove_prefix(bytes);
    }
}

std::vector<Piece> read_pieces(const std::string& model) {
    std::vector<Piece> pieces;
    for_each_field(model, [&](uint64_t number, std::string_view message) {
        if (number != 1) return;
        Piece piece;
        for_each_field(message, [&](uint64_t field, std::string_view bytes) {
            if (field == 1) piece.text = bytes;
            if (field == 2) std::memcpy(&piece.score, bytes.data(), 4);
            if (field == 3) std::memcpy(&piece.type, bytes.data(), 8);
        });
        pieces.push_back(piece);
    });
    return pieces;
}

// Every way to cut a piece into two pieces is a merge; the better the piece's score, the earlier.
Json merges_of(const std::vector<Piece>& pieces) {
    std::map<std::string, int> ids;
    for (size_t i = 0; i < pieces.size(); ++i) ids[pieces[i].text] = static_cast<int>(i);
    struct Merge {
        float score;
        std::string left, right;
    };
    std::vector<Merge> merges;
    for (const Piece& piece : pieces) {
        std::vector<Merge> local;
        for (size_t i = 1; i < piece.text.size(); ++i) {
            if ((static_cast<uint8_t>(piece.text[i]) & 0xC0) == 0x80) continue;
            const std::string left = piece.text.substr(0, i), right = piece.text.substr(i);
            if (ids.count(left) && ids.count(right)) local.push_back({piece.score, left, right});
        }
        std::sort(local.begin(), local.end(), [&](const Merge& a, const Merge& b) {
            return std::pair(ids[a.left], ids[a.right]) < std::pair(ids[b.left], ids[b.right]);
        });
        merges.insert(merges.end(), local.begin(), local.end());
    }
    std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.score > b.score; });
    Json out = Json::array();
    for (const Merge& merge : merges) out.push_back({merge.left, merge.right});
    return out;
}

Json added(int id, const std::string& content) {
    return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json bos_template(int id, const std::string& content) {
    return {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", content}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"pair", Json::array()},
            {"special_tokens", {{content, {{"id", content}, {"ids", {id}}, {"tokens", {content}}}}}}};
}

Tokenizer make_llama2() {
    const auto pieces = read_pieces(read(shared("tokenizer-llama2/tokenizer.model")));
    Json vocab;
    for (size_t i = 0; i < pieces.size(); ++i) vocab[pieces[i].text] = i;
    const Json space_to_mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
    const Json mark_to_space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
    const Json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
    const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
    const Json by_byte = {{"type", "ByteFallback"}}, fuse = {{"type", "Fuse"}};
    return load_json({{"version", "1.0"},
                      {"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
                      {"normalizer", {{"type", "Sequence"}, {"normalizers", {prepend, space_to_mark}}}},
                      {"pre_tokenizer", nullptr},
                      {"post_processor", bos_template(1, "<s>")},
                      {"decoder", {{"type", "Sequence"}, {"decoders", {mark_to_space, by_byte, fuse, strip}}}},
                      {"model",
                       {{"type", "BPE"},
                        {"unk_token", "<unk>"},
                        {"fuse_unk", true},
                        {"byte_fallback", true},
                        {"vocab", vocab},
                        {"merges", merges_of(pieces)}}}},
                     {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
}

// ---- tiktoken: base64 token, space, rank ----

std::string from_base64(std::string_view text) {
    static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        if (c == '=') break;
        bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
        if ((count += 6) < 8) continue;
        count -= 8;
        out.push_back(static_cast<char>(bits >> count & 0xFF));
    }
    return out;
}

// The two tokens of which a token was made: merge its bytes by rank until two parts are left.
std::pair<std::string, std::string> parents_of(const std::string& token, const std::map<std::string, int>& ranks) {
    const int own = ranks.at(token);
    std::vector<std::string> parts;
    for (const char byte : token) parts.emplace_back(1, byte);
    while (parts.size() > 2) {
        int best = own;
        size_t at = 0;
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto entry = ranks.find(parts[i] + parts[i + 1]);
            if (entry != ranks.end() && entry->second < best) best = entry->second, at = i;
        }
        if (best == own) return {};
        parts[at] += parts[at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return {parts[0], parts[1]};
}

Tokenizer make_llama3() {
    std::map<std::string, int> ranks;
    std::istringstream in(read(shared("tokenizer-llama3/tokenizer.model")));
    std::string word;
    for (int rank = 0; in >> word >> rank;) ranks[from_base64(word)] = rank;
    std::vector<std::string> by_rank(ranks.size());
    for (const auto& [token, rank] : ranks) by_rank[static_cast<size_t>(rank)] = token;
    Json vocab, merges = Json::array();
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
        vocab[spell_bytes(by_rank[rank])] = rank;
        if (by_rank[rank].size() < 2) continue;
        const auto [left, right] = parents_of(by_rank[rank], ranks);
        if (!left.empty()) merges.push_back({spell_bytes(left), spell_bytes(right)});
    }
    std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>"};
    for (int i = 0; i < 7; ++i) names.push_back(fmt::format("<|reserved_{}|>", i));
    names.push_back("<|eot_id|>");
    Json special = Json::array();
    for (size_t i = 0; i < names.size(); ++i) special.push_back(added(static_cast<int>(128000 + i), names[i]));
    const std::string split =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const Json cut = {{"type", "Split"}, {"pattern", {{"Regex", split}}}, {"behavior", "Isolated"}, {"invert", false}};
    const Json spell = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    const Json offsets = {
        {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
    return load_json({{"version", "1.0"},
                      {"added_tokens", special},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {cut, spell}}}},
                      {"post_processor",
                       {{"type", "Sequence"}, {"processors", {offsets, bos_template(128000, "<|begin_of_text|>")}}}},
                      {"decoder", offsets},
                      {"model", {{"type", "BPE"}, {"ignore_merges", true}, {"vocab", vocab}, {"merges", merges}}}},
                     {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|end_of_text|>"}});
}

Tokenizer make_opt() {
    TempFolder folder;
    folder.copy(shared("tokenizer-opt/vocab.json"), "vocab.json");
    folder.copy(shared("tokenizer-opt/merges.txt"), "merges.txt");
    folder.write("config.json", R"({"model_type": "opt", "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1})");
    return Tokenizer::load(real_files(), folder.path());
}

}  // namespace

const Tokenizer& llama2() {
    static const Tokenizer tokenizer = make_llama2();
    return tokenizer;
}
const Tokenizer& llama3() {
    static const Tokenizer tokenizer = make_llama3();
    return tokenizer;
}
const Tokenizer& qwen3() {
    static const Tokenizer tokenizer = Tokenizer::load(real_files(), shared("tokenizer-qwen3"));
    return tokenizer;
}
const Tokenizer& gpt2() {
    static const Tokenizer tokenizer = Tokenizer::load(real_files(), shared("tokenizer-gpt2"));
    return tokenizer;
}
const Tokenizer& pythia() {
    static const Tokenizer tokenizer = load_shared("tokenizer-neox-pythia", {{"tokenizer.json", "20B_tokenizer.json"}});
    return tokenizer;
}
const Tokenizer& opt() {
    static const Tokenizer tokenizer = make_opt();
    return tokenizer;
}
const Tokenizer& stories() {
    static const Tokenizer tokenizer = Tokenizer::load(real_files(), shared("model-stories260K-hf"));
    return tokenizer;
}

Json small_tokenizer_json() {
    Json vocab;
    for (int byte = 0; byte < 256; ++byte) vocab[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
    vocab["<s>"] = 256;
    vocab["</s>"] = 257;
    vocab["he"] = 258;
    vocab["ll"] = 259;
    vocab["hell"] = 260;
    vocab["hello"] = 261;
    const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    return {{"version", "1.0"},
            {"added_tokens", {added(256, "<s>"), added(257, "</s>")}},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", bos_template(256, "<s>")},
            {"decoder", byte_level},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e", "l l", "he ll", "hell o"}}}}};
}

Tokenizer small_tokenizer() {
    return load_json(small_tokenizer_json(), {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
}

}  // namespace windlass::fixtures
