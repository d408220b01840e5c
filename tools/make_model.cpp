// make_model.cpp: writes a random model as a Hugging Face folder, of any size, without ever holding it in memory.
//
//   make_model --shape llama-1.1b --out DIR
//   make_model --family qwen3 --hidden 1024 --layers 8 --heads 16 --kv-heads 8 --head-dim 128 --out DIR
//
// The same sizes and seed give the same bytes. With a vocabulary of 260 or more the folder also holds a byte-level
// tokenizer, so that any text trains.
#include "make_model.h"

#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cmath>
#include <numbers>
#include <span>

#include "base/file.h"
#include "base/math.h"
#include "base/rng.h"
#include "base/units.h"
#include "format/model_folder_writer.h"

namespace windlass::make_model {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 22;
constexpr int64_t kTableSize = int64_t{1} << 16;  // a random 16-bit word picks an entry
constexpr int64_t kDrawsPerBlock = 8;             // 16-bit words in one Philox block

// The x with P(N(0,1) < x) = p, for p in (0, 1/2], by bisection: the table is small and this needs no approximation.
double normal_quantile(double p) {
    double low = -8, high = 0;
    for (int i = 0; i < 48; ++i) {
        const double middle = 0.5 * (low + high);
        (0.5 * std::erfc(-middle / std::numbers::sqrt2) < p ? low : high) = middle;
    }
    return high;
}

// Equally likely values of N(0, std^2), as bits of the target type. Cut at 4.3 standard deviations.
template <typename Bits>
std::vector<Bits> normal_table(double std, Bits (*encode)(float)) {
    std::vector<Bits> table(kTableSize);
    for (int64_t i = 0; i < kTableSize / 2; ++i) {
        const double x = std * normal_quantile((static_cast<double>(i) + 0.5) / kTableSize);
        table[static_cast<size_t>(i)] = encode(static_cast<float>(x));
        table[static_cast<size_t>(kTableSize - 1 - i)] = encode(static_cast<float>(-x));
    }
    return table;
}

// Makes the elements of one type: element e of parameter p is a function of (seed, p, e) alone.
template <typename Bits>
class Filler {
  public:
    Filler(uint64_t seed, double std, Bits (*encode)(float))
        : seed_(seed), one_(encode(1.0f)), table_(normal_table(std, encode)) {}

    // Elements [first, first + out.size()); first is a multiple of kDrawsPerBlock.
    void fill(std::span<Bits> out, Init init, uint32_t parameter, int64_t first) const {
        if (init != Init::normal) {
            std::fill(out.begin(), out.end(), init == Init::ones ? one_ : Bits{0});
            return;
        }
        RandomCounter counter{static_cast<uint64_t>(first / kDrawsPerBlock), RandomStream::init, parameter, 0};
        for (size_t i = 0; i < out.size(); i += kDrawsPerBlock, ++counter.block) {
            const auto draws = std::bit_cast<std::array<uint16_t, kDrawsPerBlock>>(philox(seed_, counter));
            const size_t count = std::min<size_t>(kDrawsPerBlock, out.size() - i);
            for (size_t j = 0; j < count; ++j) out[i + j] = table_[draws[j]];
        }
    }

  private:
    uint64_t seed_;
    Bits one_;
    std::vector<Bits> table_;
};

template <typename Bits>
void write_weights(ModelFolderWriter& writer, std::span<const Parameter> list, const Filler<Bits>& filler) {
    std::vector<Bits> piece(kPieceElements);
    for (size_t p = 0; p < list.size(); ++p) {
        const int64_t numel = list[p].spec.shape.numel();
        for (int64_t first = 0; first < numel; first += kPieceElements) {
            const std::span out(piece.data(), static_cast<size_t>(std::min(kPieceElements, numel - first)));
            filler.fill(out, list[p].init, narrow<uint32_t>(p), first);
            writer.write(list[p].spec.name, first * static_cast<int64_t>(sizeof(Bits)), std::as_bytes(out));
        }
    }
}

// The character that stands for a byte in a byte-level vocabulary (GPT-2's map), as UTF-8: printable bytes stand for
// themselves, the others for the code points from 256 on, in order.
std::string byte_symbol(int byte) {
    const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    int code = byte;
    if (!printable(byte)) {
        code = 256;
        for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
    }
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

Json tokenizer_json() {
    Json vocab = Json::object();
    for (int byte = 0; byte < 256; ++byte) vocab[byte_symbol(byte)] = byte;
    Json added = Json::array();
    for (const auto& [id, text] : {std::pair{kBos, "<s>"}, {kEos, "</s>"}, {kPad, "<pad>"}, {kUnknown, "<unk>"}})
        added.push_back({{"id", id},
                         {"content", text},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", true}});
    const Json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", nullptr},
            {"decoder", byte_level},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", false},
              {"vocab", vocab},
              {"merges", Json::array()}}}};
}

Json tokenizer_config(const Sizes& s) {
    return {{"tokenizer_class", "PreTrainedTokenizerFast"},
            {"bos_token", "<s>"},
            {"eos_token", "</s>"},
            {"pad_token", "<pad>"},
            {"unk_token", "<unk>"},
            {"model_max_length", s.positions},
            {"clean_up_tokenization_spaces", false}};
}

struct Settings {
    Sizes sizes;
    std::string out;
    uint64_t seed = 0;
    double std = 0.02;
    int64_t shard_bytes_max = kShardBytesMax;
    bool overwrite = false;
};

void write_side_files(const Settings& settings, const Json& config) {
    const auto write = [&](const char* name, const Json& json) {
        write_text_atomic(real_files(), settings.out + "/" + name, json.dump(2) + "\n");
    };
    Json generation = {{"_from_model_config", true}};
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
        if (config.contains(key)) generation[key] = config[key];
    write("generation_config.json", generation);
    if (!has_tokenizer(settings.sizes)) return;
    write("tokenizer.json", tokenizer_json());
    write("tokenizer_config.json", tokenizer_config(settings.sizes));
}

void run(const Settings& settings) {
    const auto start = std::chrono::steady_clock::now();
    const Sizes& sizes = settings.sizes;
    const Json config_json = config(sizes);
    const std::vector<Parameter> list = parameters(sizes);
    std::vector<TensorSpec> specs;
    int64_t count = 0, bytes = 0;
    for (const Parameter& parameter : list) {
        specs.push_back(parameter.spec);
        count += parameter.spec.shape.numel();
        bytes += parameter.spec.bytes();
    }
    const ShardSplit shards = split_by_size(specs, settings.shard_bytes_max);
    ModelFolderWriter writer(real_files(), settings.out, {config_json.dump(2) + "\n", specs, shards},
                             settings.overwrite);
    if (sizes.dtype == DType::f32) {
        const auto encode = +[](float x) { return std::bit_cast<uint32_t>(x); };
        write_weights(writer, list, Filler<uint32_t>(settings.seed, settings.std, encode));
    } else {
        const auto encode = sizes.dtype == DType::bf16 ? +[](float x) { return to_bf16(x).bits; } : float_to_half;
        write_weights(writer, list, Filler<uint16_t>(settings.seed, settings.std, encode));
    }
    writer.finish();
    write_side_files(settings, config_json);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    fmt::print("{}: {} with {} parameters, {}, in {}\n", settings.out, sizes.family, format_count(count),
               format_bytes(bytes), format_seconds(elapsed.count()));
}

// A named shape is taken over as soon as it is met, the other flags at the end, so their order does not matter.
void add_size_flags(CLI::App& app, Sizes& s) {
    // Bounds under which no count of elements or bytes overflows 63 bits.
    const CLI::Range count(int64_t{1}, int64_t{1} << 12), count_or_default(int64_t{0}, int64_t{1} << 12);
    const CLI::Range size(int64_t{1}, int64_t{1} << 20), size_or_default(int64_t{0}, int64_t{1} << 20);
    const std::map<std::string, DType> dtypes = {{"bf16", DType::bf16}, {"f16", DType::f16}, {"f32", DType::f32}};
    app.add_option_function<std::string>(
           "--shape", [&s](const std::string& name) { s = named_shape(name); },
           "gpt2-124m, llama-1.1b, llama-8b, qwen3-32b, <family>-tiny; other flags change it")
        ->trigger_on_parse();
    app.add_option("--family", s.family)->check(CLI::IsMember({"gpt2", "opt", "llama", "mistral", "qwen2", "qwen3"}));
    app.add_option("--dtype", s.dtype)->transform(CLI::CheckedTransformer(dtypes));
    app.add_option("--hidden", s.hidden)->check(size);
    app.add_option("--layers", s.layers)->check(count);
    app.add_option("--heads", s.heads)->check(count);
    app.add_option("--kv-heads", s.kv_heads, "0: as many as heads")->check(count_or_default);
    app.add_option("--head-dim", s.head_dim, "0: hidden / heads")->check(count_or_default);
    app.add_option("--ffn", s.ffn, "0: 4 x hidden")->check(size_or_default);
    app.add_option("--vocab", s.vocab)->check(size);
    app.add_option("--positions", s.positions)->check(size);
    app.add_option("--window", s.window, "mistral; 0: none")->check(size_or_default);
    app.add_option("--rope-theta", s.rope_theta)->check(CLI::PositiveNumber);
    app.add_flag("--tied,!--untied", s.tied, "whether the head is the embedding table");
}

void add_flags(CLI::App& app, Settings& settings) {
    add_size_flags(app, settings.sizes);
    app.add_option("--std", settings.std, "standard deviation of matrices")->check(CLI::PositiveNumber);
    app.add_option("--seed", settings.seed);
    app.add_option("--shard-bytes", settings.shard_bytes_max)->check(CLI::PositiveNumber);
    app.add_flag("--overwrite", settings.overwrite);
    app.add_option("--out", settings.out)->required();
}

}  // namespace
}  // namespace windlass::make_model

int main(int argc, char** argv) {
    using namespace windlass;
    try {
        make_model::Settings settings;
        CLI::App app("Writes a random model as a Hugging Face folder.");
        make_model::add_flags(app, settings);
        try {
            app.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
        }
        settings.sizes = make_model::resolved(settings.sizes);
        make_model::run(settings);
    } catch (const Error& error) {
        fmt::print(stderr, "make_model: {}\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
