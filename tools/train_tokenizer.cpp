// train_tokenizer.cpp: learns byte-pair merges for a folder that make_model wrote, until its vocabulary is full.
//
//   train_tokenizer --model DIR --data rows.jsonl
//
// Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (2016), algorithm 1, over
// bytes: again and again the pair of neighbours that occurs most becomes one token. Of equally frequent pairs the one
// with the lower ids wins, so the same rows give the same tokenizer.
#include <CLI/CLI.hpp>
#include <map>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "rows/row_reader.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pre_tokenizer.h"

namespace windlass {
namespace {

constexpr int64_t kJsonBytesMax = int64_t{1} << 24;
constexpr int64_t kPairCountMin = 2;

struct Word {
    std::vector<int32_t> ids;
    int64_t count = 0;
};
using Pair = std::pair<int32_t, int32_t>;

class Merger {
  public:
    explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
        for (size_t word = 0; word < words_.size(); ++word) count_pairs(word, +1);
    }

    // The most frequent pair, if it occurs often enough.
    std::optional<Pair> best() const {
        const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
        const auto found = std::max_element(counts_.begin(), counts_.end(), more);
        if (found == counts_.end() || found->second < kPairCountMin) return std::nullopt;
        return found->first;
    }

    void merge(Pair pair, int32_t id) {
        const std::set<size_t> touched = std::move(words_with_[pair]);
        for (const size_t word : touched) {
            count_pairs(word, -1);
            std::vector<int32_t>& ids = words_[word].ids;
            size_t kept = 0;
            for (size_t i = 0; i < ids.size(); ++i) {
                const bool match = i + 1 < ids.size() && ids[i] == pair.first && ids[i + 1] == pair.second;
                ids[kept++] = match ? id : ids[i];
                if (match) ++i;
            }
            ids.resize(kept);
            count_pairs(word, +1);
        }
        counts_.erase(pair);
        words_with_.erase(pair);
    }

  private:
    void count_pairs(size_t word, int64_t sign) {
        const std::vector<int32_t>& ids = words_[word].ids;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            const Pair pair = {ids[i], ids[i + 1]};
            counts_[pair] += sign * words_[word].count;
            if (sign > 0) words_with_[pair].insert(word);
        }
    }

    std::vector<Word> words_;
    std::map<Pair, int64_t> counts_;
    std::map<Pair, std::set<size_t>> words_with_;  // and perhaps words that had the pair once
};

// How often each piece of the rows' texts occurs; pieces are spelled in the byte alphabet.
std::map<std::string, int64_t> count_pieces(const std::string& path) {
    std::vector<PreTokenizerStep> steps;
    steps.push_back(ByteLevelStep{.pattern = Pattern::regex(kGpt2Split, "GPT-2's split")});
    const PreTokenizer cutter(std::move(steps));
    std::map<std::string, int64_t> counts;
    RowReader reader(real_files(), path, "");
    while (const std::optional<RawRow> row = reader.next()) {
        const Json fields = parse_json(row->text, path, ExitCode::data);
        for (const auto& [key, value] : fields.items()) {
            const Pieces pieces = cutter.cut(value.get<std::string>(), true);
            for (const Span& span : pieces.spans) ++counts[pieces.text.substr(span.begin, span.end - span.begin)];
        }
    }
    return counts;
}

std::vector<Word> words_of(const std::map<std::string, int64_t>& pieces, const Json& vocab) {
    std::array<int32_t, 256> id_of_byte{};
    for (int byte = 0; byte < 256; ++byte)
        id_of_byte[static_cast<size_t>(byte)] = vocab.at(spell_bytes(std::string(1, static_cast<char>(byte))));
    std::vector<Word> words;
    for (const auto& [piece, count] : pieces) {
        words.push_back({.count = count});
        const std::string bytes = *unspell_bytes(piece);
        for (const char byte : bytes) words.back().ids.push_back(id_of_byte[static_cast<uint8_t>(byte)]);
    }
    return words;
}

void run(const std::string& folder, const std::string& data) {
    const std::string path = folder + "/tokenizer.json";
    const auto read = [](const std::string& file) {
        return parse_json(read_text(real_files(), file, kJsonBytesMax), file, ExitCode::model);
    };
    Json tokenizer = read(path);
    const int32_t size = read(folder + "/config.json").at("vocab_size");
    Json& vocab = tokenizer["model"]["vocab"];
    // Loaders number added tokens behind the vocabulary, unless it has them: so it has them.
    for (const Json& added : tokenizer["added_tokens"]) vocab[added.at("content").get<std::string>()] = added.at("id");
    std::map<int32_t, std::string> spelling;
    for (const auto& [token, id] : vocab.items()) spelling[id] = token;
    auto next = static_cast<int32_t>(vocab.size());

    Merger merger(words_of(count_pieces(data), vocab));
    Json merges = Json::array();
    for (std::optional<Pair> pair; next < size && (pair = merger.best()); ++next) {
        const std::string &left = spelling[pair->first], &right = spelling[pair->second];
        merges.push_back(Json::array({left, right}));
        spelling[next] = left + right;
        merger.merge(*pair, next);
    }
    for (const auto& [id, token] : spelling) vocab[token] = id;
    tokenizer["model"]["merges"] = merges;
    write_text_atomic(real_files(), path, tokenizer.dump(1) + "\n");
    fmt::print("{}: {} merges, {} tokens\n", path, merges.size(), next);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    std::string folder, data;
    CLI::App app("Learns byte-pair merges for a folder that make_model wrote.");
    app.add_option("--model", folder)->required();
    app.add_option("--data", data, "rows of texts, .jsonl")->required();
    CLI11_PARSE(app, argc, argv);
    try {
        run(folder, data);
    } catch (const Error& error) {
        fmt::print(stderr, "train_tokenizer: {}\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
