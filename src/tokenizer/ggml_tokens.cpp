#include "tokenizer/ggml_tokens.h"

#include <fmt/ranges.h>

#include <set>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/parts.h"

namespace windlass {
namespace {

struct GgmlCut {
    std::string_view name;
    std::string_view differs;  // which texts llama.cpp cuts otherwise all the same; empty: none that is known
};

// One name of llama.cpp (src/llama-vocab.cpp, llm_tokenizer_bpe), and the steps of a tokenizer.json that it means.
// With `whole_tokens` a piece that is a token stays whole, as BPE's ignore_merges has it.
struct CutName {
    std::string_view name;
    std::string_view steps;
    bool whole_tokens = false;
    std::string_view differs = {};
};

// llama.cpp has no classes of marks and of case in these two patterns: [^a-z] and [^A-Z] among letters replace them.
constexpr std::string_view kNoMarks = "words with combining marks, and changes of case outside of a to z";

constexpr std::string_view kDigitsThenGpt2 = "digits, gpt2";
// Split patterns, in the spelling of published tokenizer.json files.
constexpr std::string_view kLlama3 =
    R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// "dbrx" is Llama 3's cut without whole tokens: cl100k's, which OLMo 2 and Phi-4 have.
constexpr CutName kCutNames[] = {
    {"gpt-2", "gpt2"},
    {"smollm", kDigitsThenGpt2},
    {"llama-bpe", kLlama3, true},
    {"dbrx", kLlama3},
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"tekken", kTekken, true, kNoMarks},
    {"gpt-4o", kGpt4o, false, kNoMarks},
};

// If a split's matches cover every text, the rule for the text between them makes no difference.
std::string step_text(const SplitStep& step) {
    const bool isolates = step.behavior == SplitBehavior::isolated && !step.invert;
    const bool keeps_matches = step.behavior == SplitBehavior::removed && step.invert;
    const bool is_regex = step.pattern.is_regex();
    return fmt::format("split {}{}", (isolates || keeps_matches) && is_regex ? "" : "otherwise ", step.pattern.text());
}
std::string step_text(const ByteLevelStep& step) {
    if (step.add_prefix_space) return "a space in front";
    return step.use_regex ? "gpt2" : "";
}
std::string step_text(const MetaspaceStep&) {
    return "metaspace";
}
std::string step_text(const DigitsStep& step) {
    return step.individual ? "digits" : "numbers";
}

std::string steps_text(const PreTokenizer& pre_tokenizer) {
    std::vector<std::string> texts;
    for (const PreTokenizerStep& step : pre_tokenizer.steps()) {
        std::string text = std::visit([](const auto& each) { return step_text(each); }, step);
        if (!text.empty()) texts.push_back(std::move(text));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

// Whether keeping pieces whole that are tokens changes anything: merges alone make each token of its own spelling.
bool merges_make_every_token(const TokenizerParts& parts) {
    const Vocab& vocab = parts.model.vocab();
    std::set<std::string_view> added;
    for (const AddedToken& token : parts.added_list) added.insert(token.content);
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < vocab.end_id(); ++id) {
        if (!vocab.has(id) || added.contains(vocab.token(id))) continue;
        ids.clear();
        parts.model.encode_by_merges(vocab.token(id), ids);
        if (ids.size() != 1 || ids[0] != id) return false;
    }
    return true;
}

// llama.cpp's name for the way in which a byte-level tokenizer cuts texts (tokenizer.ggml.pre). llama.cpp has the
// patterns compiled in and knows each by a name; a file holds the name. So a tokenizer can be written where its steps
// are exactly those of a name, and is refused elsewhere: an almost right name gives wrong tokens without a word.
// UserError(model) naming `where` and the steps that have no name.
GgmlCut ggml_cut(const TokenizerParts& parts, std::string_view where) {
    const std::string steps = steps_text(parts.pre_tokenizer);
    const bool whole_tokens = parts.model.options().ignore_merges;
    const CutName* other = nullptr;
    for (const CutName& name : kCutNames) {
        if (name.steps != steps) continue;
        if (name.whole_tokens == whole_tokens) return {name.name, name.differs};
        other = &name;
    }
    if (other == nullptr)
        throw UserError(ExitCode::model, where,
                        "llama.cpp has no name for the way in which this tokenizer cuts texts: {}",
                        steps.empty() ? "not at all" : steps)
            .hint("llama.cpp's own convert_hf_to_gguf.py, on the folder that windlass export writes without .gguf");
    if (!merges_make_every_token(parts))
        throw UserError(ExitCode::model, where,
                        "\"ignore_merges\" is {}, and llama.cpp's \"{}\", which cuts texts so, does it otherwise",
                        whole_tokens, other->name)
            .hint("llama.cpp's own convert_hf_to_gguf.py, on the folder that windlass export writes without .gguf");
    return {other->name, other->differs};
}

using Where = std::string_view;
constexpr std::string_view kMark = "\u2581";  // written in place of a space

[[noreturn]] void refuse_part(Where where, std::string_view what) {
    throw UserError(ExitCode::model, where, "llama.cpp has no tokenizer like this one: {}", what)
        .hint("llama.cpp's own convert_hf_to_gguf.py, on the folder that windlass export writes without .gguf");
}

bool is_byte_level(const TokenizerParts& parts) {
    const auto& steps = parts.pre_tokenizer.steps();
    return std::ranges::any_of(steps, [](const auto& step) { return std::holds_alternative<ByteLevelStep>(step); });
}

// ---- BPE over characters ----

bool replaces_spaces(const NormalizerStep& step) {
    const auto* const replace = std::get_if<ReplaceStep>(&step);
    return replace != nullptr && !replace->pattern.is_regex() && replace->pattern.text() == " " &&
           replace->replacement == kMark;
}

// llama.cpp writes marks for all spaces, puts one in front or not, and cuts nowhere else.
void read_spaces(const TokenizerParts& parts, Where where, GgmlTokens& out) {
    bool has_marks = false;
    for (const NormalizerStep& step : parts.normalizer.steps()) {
        const auto* const prepend = std::get_if<PrependStep>(&step);
        if (replaces_spaces(step))
            has_marks = true;
        else if (prepend != nullptr && (prepend->text == kMark || prepend->text == " "))
            out.adds_space = true;
        else
            refuse_part(where, "its normalizer does more than to mark spaces");
    }
    for (const PreTokenizerStep& step : parts.pre_tokenizer.steps()) {
        const auto* const split = std::get_if<SplitStep>(&step);
        if (has_marks && split != nullptr && !split->pattern.is_regex() && split->pattern.text() == " ") continue;
        const auto* const space = std::get_if<MetaspaceStep>(&step);
        if (space == nullptr || space->mark != kMark || space->split)
            refuse_part(where, "its pre-tokenizer cuts texts and knows nothing of bytes");
        has_marks = true;
        out.adds_space = out.adds_space || space->prepend != PrependScheme::never;
        if (space->prepend != PrependScheme::never)
            out.notes.emplace_back(
                "llama.cpp puts a space in front of every text, this tokenizer only where a text does not begin with "
                "one");
        if (space->prepend == PrependScheme::first)
            out.notes.emplace_back("llama.cpp puts a space after special tokens too, this tokenizer only before them");
    }
    if (!has_marks) refuse_part(where, "nothing in it marks spaces");
}

// A merge of llama.cpp takes the pair whose token has the highest score, this tokenizer's the pair of the lowest rank:
// the same where the ranks of a token's pairs lie together, and all pairs that make a token are merges of it.
void score_merges(const TokenizerParts& parts, GgmlTokens& out) {
    const std::vector<MergePair> merges = parts.model.merges();
    const Vocab& vocab = parts.model.vocab();
    std::vector<int64_t> pairs(out.tokens.size(), 0);
    int64_t apart = 0;
    std::string last;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string token = merges[rank].first + merges[rank].second;
        const auto id = static_cast<size_t>(vocab.find(token).value_or(-1));
        if (id >= pairs.size()) continue;
        if (pairs[id]++ == 0)
            out.scores[id] = -static_cast<float>(rank + 1);
        else if (token != last)
            ++apart;
        last = token;
    }
    int64_t unlisted = 0;
    for (size_t id = 0; id < pairs.size(); ++id) {
        if (out.types[id] != static_cast<int32_t>(GgmlTokenType::normal)) continue;
        const std::string_view token = vocab.token(static_cast<int32_t>(id));
        for (size_t at = 1; at < token.size(); ++at)
            if (vocab.find(token.substr(0, at)) && vocab.find(token.substr(at))) --pairs[id];
        unlisted += pairs[id] < 0;
    }
    if (apart + unlisted > 0)
        out.notes.push_back(fmt::format(
            "llama.cpp merges by tokens, this tokenizer by pairs: {} tokens can be made there of other pairs, "
            "and rare words cut otherwise",
            apart + unlisted));
}

void read_characters(const TokenizerParts& parts, Where where, GgmlTokens& out) {
    if (!parts.model.options().byte_fallback) refuse_part(where, "characters that it lacks do not become bytes");
    out.model = "llama";
    out.cut = "default";
    read_spaces(parts, where, out);
    out.scores.assign(out.tokens.size(), 0.0f);
    const Vocab& vocab = parts.model.vocab();
    for (int byte = 0; byte < 256; ++byte) {
        const auto id = vocab.find(fmt::format("<0x{:02X}>", byte));
        if (!id || static_cast<size_t>(*id) >= out.types.size()) refuse_part(where, "it has no tokens for all bytes");
        out.types[static_cast<size_t>(*id)] = static_cast<int32_t>(GgmlTokenType::byte);
    }
    if (const auto& unknown = parts.model.options().unknown)
        out.types[static_cast<size_t>(*vocab.find(*unknown))] = static_cast<int32_t>(GgmlTokenType::unknown);
    score_merges(parts, out);
}

// ---- BPE over bytes ----

void read_bytes(const TokenizerParts& parts, Where where, GgmlTokens& out) {
    for (const NormalizerStep& step : parts.normalizer.steps())
        if (!std::holds_alternative<NfcStep>(step)) refuse_part(where, "it changes texts before it cuts them");
    if (!parts.normalizer.steps().empty())
        out.notes.emplace_back(
            "llama.cpp does not bring texts into Unicode's form NFC, this tokenizer does: accents that are characters "
            "of "
            "their own get other tokens");
    out.model = "gpt2";
    const GgmlCut cut = ggml_cut(parts, where);
    out.cut = cut.name;
    if (!cut.differs.empty()) out.notes.push_back(fmt::format("llama.cpp cuts {} otherwise", cut.differs));
    for (const auto& [left, right] : parts.model.merges()) out.merges.push_back(fmt::format("{} {}", left, right));
}

// ---- both ----

// llama.cpp's rule for models of that name: which of their own tokens take white space after them along.
bool strips_as_phi3(std::span<const AddedToken> added) {
    static constexpr std::string_view kNot[] = {"<unk>", "<s>", "<|endoftext|>"};
    return !added.empty() && std::ranges::all_of(added, [](const AddedToken& token) {
        const bool takes = std::ranges::find(kNot, token.content) == std::end(kNot);
        return token.rstrip == takes && !token.lstrip && !token.single_word;
    }) && std::ranges::any_of(added, [](const AddedToken& token) { return token.rstrip; });
}

// The tokenizer's added words; llama.cpp looks for them in the raw text, so they have spaces instead of marks.
void read_added(const TokenizerParts& parts, bool has_marks, GgmlTokens& out) {
    bool strips = false;
    for (const AddedToken& token : parts.added_list) {
        const auto id = static_cast<size_t>(token.id);
        if (id >= out.tokens.size()) continue;
        strips = strips || token.lstrip || token.rstrip || token.single_word;
        out.types[id] = static_cast<int32_t>(token.special ? GgmlTokenType::control : GgmlTokenType::user_defined);
        std::string text = token.content;
        for (size_t at = 0; has_marks && !token.special && (at = text.find(kMark, at)) != std::string::npos; ++at)
            text = text.substr(0, at) + " " + text.substr(at + kMark.size());  // of replace, GCC 12 warns
        out.tokens[id] = std::move(text);
    }
    out.strips_as_phi3 = strips_as_phi3(parts.added_list);
    if (strips && !out.strips_as_phi3)
        out.notes.emplace_back("some special tokens include spaces next to them here, but not in llama.cpp");
}

// At most the one token that llama.cpp can put there.
bool adds_only(std::span<const int32_t> ids, std::optional<int32_t>& token, const char* place, Where where) {
    if (ids.empty()) return false;
    if (ids.size() > 1 || (token && *token != ids[0]))
        refuse_part(where, fmt::format("it puts {} tokens {} texts, or another than its own", ids.size(), place));
    token = ids[0];
    return true;
}

}  // namespace

std::string ggml_model_name(std::string_view name, const GgmlTokens& tokens) {
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool says_it = lower.find("phi-3") != lower.npos || lower.find("phi3") != lower.npos;
    if (tokens.strips_as_phi3) return says_it ? std::string(name) : fmt::format("phi-3 {}", name);
    return says_it ? "model" : std::string(name);
}

GgmlTokens ggml_tokens(const Tokenizer& tokenizer, int64_t rows, Where where) {
    const TokenizerParts& parts = tokenizer.parts();
    GgmlTokens out;
    out.types.assign(static_cast<size_t>(rows), static_cast<int32_t>(GgmlTokenType::unused));
    for (int64_t id = 0; id < rows; ++id) {
        const auto token = static_cast<int32_t>(id);
        const bool exists = parts.all.has(token);
        out.tokens.push_back(exists ? std::string(parts.all.token(token)) : fmt::format("[PAD{}]", id));
        if (exists) out.types[static_cast<size_t>(id)] = static_cast<int32_t>(GgmlTokenType::normal);
    }
    if (parts.all.end_id() > rows)
        out.notes.push_back(
            fmt::format("{} tokens have no row in the model and are left out", parts.all.end_id() - rows));
    const bool byte_level = is_byte_level(parts);
    read_added(parts, !byte_level, out);
    if (byte_level)
        read_bytes(parts, where, out);
    else
        read_characters(parts, where, out);
    out.bos = tokenizer.bos(), out.eos = tokenizer.eos(), out.unk = tokenizer.unk(), out.pad = tokenizer.pad();
    if (tokenizer.eos_ids().size() > 1) out.eot = tokenizer.eos_ids()[1];
    out.adds_bos = adds_only(tokenizer.prefix(), out.bos, "in front of", where);
    out.adds_eos = adds_only(tokenizer.suffix(), out.eos, "after", where);
    return out;
}

}  // namespace windlass
