#include "tokenizer/ggml_cut.h"

#include <fmt/ranges.h>

#include <set>

namespace windlass {
namespace {

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

}  // namespace

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

}  // namespace windlass
