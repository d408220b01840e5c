// vocab_merges.cpp: byte-level tokenizers from before tokenizer.json: vocab.json and merges.txt.
//
// These two files do not say how text is cut; the class of the tokenizer does. We know GPT-2's (which OPT uses) and
// Qwen2's.
#include "base/printable.h"
#include "tokenizer/parts.h"

namespace windlass {
namespace {

constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Style { gpt2, opt, qwen2 };

Style style_of(TokenizerFolder& folder) {
    const std::string config_path = folder.path("tokenizer_config.json");
    const auto model = string_member(folder.config("config.json"), "model_type", "", folder.path("config.json"));
    if (model == "opt") return Style::opt;
    const auto name = string_member(folder.config("tokenizer_config.json"), "tokenizer_class", "", config_path);
    if (name.starts_with("GPT2Tokenizer") || name.starts_with("CodeGenTokenizer")) return Style::gpt2;
    if (name.starts_with("Qwen2Tokenizer")) return Style::qwen2;
    if (!name.empty())
        throw UserError(ExitCode::model, config_path,
                        "the tokenizer class \"{}\" is not supported without a tokenizer.json", excerpt(name))
            .hint("save the tokenizer once with a recent transformers, which writes tokenizer.json");
    if (model.empty() || model == "gpt2") return Style::gpt2;
    if (model.starts_with("qwen")) return Style::qwen2;
    throw UserError(ExitCode::model, folder.path("config.json"),
                    "the tokenizer of model type \"{}\" is not known without a tokenizer.json", excerpt(model))
        .hint("save the tokenizer once with a recent transformers, which writes tokenizer.json");
}

std::vector<MergePair> read_merges(TokenizerFolder& folder) {
    const std::string where = folder.path("merges.txt");
    std::string_view text = folder.text("merges.txt", kTokenizerBytesMax);
    std::vector<MergePair> merges;
    for (int64_t line_number = 1; !text.empty(); ++line_number) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
        const size_t space = line.find(' ');
        if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
            throw UserError(ExitCode::model, fmt::format("{}:{}", where, line_number), "a merge is not two tokens: {}",
                            excerpt(line));
        merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
    return merges;
}

TokenizerParts read_model(TokenizerFolder& folder) {
    const std::string where = folder.path("vocab.json");
    const SortedJson json = parse_sorted_json(folder.text("vocab.json", kTokenizerBytesMax), where, ExitCode::model);
    const std::vector<MergePair> merges = read_merges(folder);
    TokenizerParts parts(BpeModel(read_vocab(json, where), merges, {}, where));
    parts.content_hash = add_to_hash(parts.content_hash, json.dump());
    for (const auto& [left, right] : merges)
        parts.content_hash = add_to_hash(parts.content_hash, fmt::format("{} {}", left, right));
    return parts;
}

// Collects added tokens, each content once; the first description of it holds.
class AddedCollector {
  public:
    AddedCollector(TokenizerParts& parts) : parts_(parts) {
        for (const AddedToken& token : parts.added_list) place_of_.emplace(token.content, place_of_.size());
    }

    void add(AddedToken token) {
        if (token.content.empty() || !place_of_.emplace(token.content, place_of_.size()).second) return;
        parts_.added_list.push_back(std::move(token));
    }

    // A special token known by its spelling only; skipped when nothing gives it an id.
    void add_special(const std::string& content) {
        if (const auto id = parts_.model.vocab().find(content)) add({.content = content, .id = *id, .special = true});
    }

    AddedToken* find(const std::string& content) {
        const auto place = place_of_.find(content);
        return place == place_of_.end() ? nullptr : &parts_.added_list[place->second];
    }

  private:
    TokenizerParts& parts_;
    std::map<std::string, size_t> place_of_;  // in the list, by content
};

int32_t checked_id(int64_t id, const std::string& where) {
    if (id < 0 || id >= kVocabSizeMax) throw UserError(ExitCode::model, where, "an added token has the id {}", id);
    return static_cast<int32_t>(id);
}

// tokenizer_config.json's "added_tokens_decoder": {"151643": {"content": ...}}
void read_added_decoder(TokenizerFolder& folder, AddedCollector& added) {
    const std::string where = folder.path("tokenizer_config.json");
    const SortedJson& list = member(folder.config("tokenizer_config.json"), "added_tokens_decoder");
    if (list.is_null()) return;
    for (const auto& [key, entry] : list.items()) {
        if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos)
            throw UserError(ExitCode::model, where, "\"added_tokens_decoder\" has the key \"{}\", which is not an id",
                            excerpt(key));
        AddedToken token = read_added_token(entry, where);
        token.id = checked_id(std::stoll(key), where);
        added.add(std::move(token));
    }
}

void read_added_tokens(TokenizerFolder& folder, TokenizerParts& parts) {
    AddedCollector added(parts);
    read_added_decoder(folder, added);
    const std::string where = folder.path("added_tokens.json");
    for (const auto& [content, id] : folder.config("added_tokens.json").items()) {
        const std::optional<int64_t> integer = integer_of(id);
        if (!integer) throw UserError(ExitCode::model, where, "the id of \"{}\" is not an integer", excerpt(content));
        added.add({.content = content, .id = checked_id(*integer, where)});
    }
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
        for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
            const SortedJson& value = member(folder.config(name), key);
            const SortedJson& content = value.is_object() ? member(value, "content") : value;
            if (!content.is_string()) continue;
            if (AddedToken* known = added.find(content.get<std::string>()))
                known->special = true;
            else
                added.add_special(content.get<std::string>());
        }
}

// What the classes assume when no file says otherwise.
void apply_defaults(Style style, TokenizerFolder& folder, TokenizerParts& parts) {
    const SortedJson& config = folder.config("tokenizer_config.json");
    const Vocab& vocab = parts.model.vocab();
    AddedCollector added(parts);
    const auto default_to = [&](std::optional<int32_t>& id, const char* key, const char* content) {
        if (config.contains(key)) return;
        id = vocab.find(content);
        if (id) added.add_special(content);
    };
    if (style == Style::gpt2) {
        default_to(parts.special.bos, "bos_token", "<|endoftext|>");
        default_to(parts.special.eos, "eos_token", "<|endoftext|>");
    }
    if (style != Style::opt) return;
    default_to(parts.special.bos, "bos_token", "</s>");
    default_to(parts.special.eos, "eos_token", "</s>");
    default_to(parts.special.pad, "pad_token", "<pad>");
    if (!config.contains("add_bos_token") && parts.special.bos) parts.prefix = {*parts.special.bos};
}

}  // namespace

TokenizerParts read_vocab_merges(TokenizerFolder& folder) {
    const Style style = style_of(folder);
    TokenizerParts parts = read_model(folder);
    const bool add_prefix_space = bool_member(folder.config("tokenizer_config.json"), "add_prefix_space", false,
                                              folder.path("tokenizer_config.json"));
    parts.content_hash =
        add_to_hash(parts.content_hash, fmt::format("{} {}", static_cast<int>(style), add_prefix_space));
    std::vector<PreTokenizerStep> steps;
    if (style == Style::qwen2) {
        std::vector<NormalizerStep> normalizer;
        normalizer.push_back(NfcStep{});
        parts.normalizer = Normalizer(std::move(normalizer));
        steps.push_back(SplitStep{Pattern::regex(kQwen2Split, "Qwen2")});
    }
    steps.push_back(byte_level_step(add_prefix_space && style != Style::qwen2, style != Style::qwen2));
    parts.pre_tokenizer = PreTokenizer(std::move(steps));
    std::vector<DecodeStep> decode;
    decode.push_back(ByteLevelDecode{});
    parts.decoder = Decoder(std::move(decode));
    read_added_tokens(folder, parts);
    apply_defaults(style, folder, parts);
    return parts;
}

}  // namespace windlass
