// read_parts.cpp: normalizer, pre-tokenizer, decoder and post-processor of a tokenizer.json.
#include <array>

#include "base/printable.h"
#include "tokenizer/parts.h"

namespace windlass {
namespace {

using Where = std::string_view;

[[noreturn]] void refuse(const char* part, std::string_view type, Where where) {
    throw UserError(ExitCode::model, where, "the {} \"{}\" is not supported", part, excerpt(type));
}

std::string type_of(const SortedJson& json, const char* part, Where where) {
    if (!json.is_object()) throw UserError(ExitCode::model, where, "a {} is not an object", part);
    return string_member(json, "type", "", where);
}

// Calls read(step) for the part itself, or for the members of its "Sequence" under `list_key`, however deep.
template <typename ReadStep>
void for_each_step(const SortedJson& json, const char* part, const char* list_key, Where where, ReadStep read) {
    if (json.is_null()) return;
    if (type_of(json, part, where) != "Sequence") return read(json);
    check_members(json, part, {"type", list_key}, where);
    const SortedJson& list = member(json, list_key);
    if (!list.is_array()) throw UserError(ExitCode::model, where, "a {} Sequence has no \"{}\"", part, list_key);
    for (const auto& step : list) for_each_step(step, part, list_key, where, read);
}

// {"String": text} or {"Regex": expression}
Pattern read_pattern(const SortedJson& json, Where where) {
    check_members(json, "a pattern", {"String", "Regex"}, where);
    if (json.size() != 1) throw UserError(ExitCode::model, where, "a pattern is not one of String and Regex");
    if (json.contains("String")) return Pattern::literal(string_member(json, "String", "", where));
    return Pattern::regex(string_member(json, "Regex", "", where), where);
}

SplitBehavior read_behavior(const std::string& name, Where where) {
    if (name == "Removed") return SplitBehavior::removed;
    if (name == "Isolated") return SplitBehavior::isolated;
    if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (name == "Contiguous") return SplitBehavior::contiguous;
    refuse("split behavior", name, where);
}

struct Metaspace {
    std::string mark;
    PrependScheme prepend = PrependScheme::always;
    bool split = true;
};

Metaspace read_metaspace(const SortedJson& json, Where where) {
    check_members(json, "Metaspace", {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"},
                  where);
    Metaspace out;
    out.mark = string_member(json, "replacement", "\u2581", where);
    if (out.mark.empty()) throw UserError(ExitCode::model, where, "Metaspace has an empty replacement");
    const bool add_prefix_space = bool_member(json, "add_prefix_space", true, where);
    const std::string scheme = string_member(json, "prepend_scheme", add_prefix_space ? "always" : "never", where);
    if (scheme == "always")
        out.prepend = PrependScheme::always;
    else if (scheme == "first")
        out.prepend = PrependScheme::first;
    else if (scheme == "never")
        out.prepend = PrependScheme::never;
    else
        refuse("prepend_scheme", scheme, where);
    if (!add_prefix_space && out.prepend != PrependScheme::never)
        throw UserError(ExitCode::model, where, "Metaspace has add_prefix_space false and prepend_scheme {}", scheme);
    out.split = bool_member(json, "split", true, where);
    return out;
}

NormalizerStep read_normalizer_step(const SortedJson& json, Where where) {
    const std::string type = type_of(json, "normalizer", where);
    if (type == "NFC") return NfcStep{};
    if (type == "Prepend") {
        check_members(json, "Prepend", {"type", "prepend"}, where);
        return PrependStep{string_member(json, "prepend", "", where)};
    }
    if (type == "Replace") {
        check_members(json, "Replace", {"type", "pattern", "content"}, where);
        return ReplaceStep{read_pattern(member(json, "pattern"), where), string_member(json, "content", "", where)};
    }
    refuse("normalizer", type, where);
}

PreTokenizerStep read_pre_tokenizer_step(const SortedJson& json, Where where) {
    const std::string type = type_of(json, "pre-tokenizer", where);
    if (type == "ByteLevel") {
        check_members(json, "ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
        return byte_level_step(bool_member(json, "add_prefix_space", true, where),
                               bool_member(json, "use_regex", true, where));
    }
    if (type == "Split") {
        check_members(json, "Split", {"type", "pattern", "behavior", "invert"}, where);
        return SplitStep{read_pattern(member(json, "pattern"), where),
                         read_behavior(string_member(json, "behavior", "", where), where),
                         bool_member(json, "invert", false, where)};
    }
    if (type == "Metaspace") {
        Metaspace space = read_metaspace(json, where);
        return MetaspaceStep{std::move(space.mark), space.prepend, space.split};
    }
    if (type == "Digits") {
        check_members(json, "Digits", {"type", "individual_digits"}, where);
        return DigitsStep{bool_member(json, "individual_digits", false, where)};
    }
    refuse("pre-tokenizer", type, where);
}

int count_member(const SortedJson& json, const char* key, Where where) {
    const int64_t count = int_member(json, key, where);
    if (count < 0 || count > kVocabSizeMax) throw UserError(ExitCode::model, where, "\"{}\" is {}", key, count);
    return static_cast<int>(count);
}

DecodeStep read_decode_step(const SortedJson& json, Where where) {
    const std::string type = type_of(json, "decoder", where);
    if (type == "ByteLevel") return ByteLevelDecode{};
    if (type == "ByteFallback") return ByteFallbackDecode{};
    if (type == "Fuse") return FuseDecode{};
    if (type == "Replace") {
        check_members(json, "Replace", {"type", "pattern", "content"}, where);
        return ReplaceDecode{read_pattern(member(json, "pattern"), where), string_member(json, "content", "", where)};
    }
    if (type == "Strip") {
        check_members(json, "Strip", {"type", "content", "start", "stop"}, where);
        StripDecode strip{string_member(json, "content", "", where), count_member(json, "start", where),
                          count_member(json, "stop", where)};
        if (strip.content.empty()) throw UserError(ExitCode::model, where, "the decoder Strip has no content");
        return strip;
    }
    if (type == "Metaspace") {
        const Metaspace space = read_metaspace(json, where);
        return MetaspaceDecode{space.mark, space.prepend != PrependScheme::never};
    }
    refuse("decoder", type, where);
}

// The ids of one {"SpecialToken": {"id": name}} of a template.
std::vector<int32_t> template_ids(const SortedJson& piece, const SortedJson& special_tokens, Where where) {
    const std::string name = string_member(piece, "id", "", where);
    const SortedJson& ids = member(member(special_tokens, name.c_str()), "ids");
    if (!ids.is_array() || ids.size() > 64)
        throw UserError(ExitCode::model, where, "the template names \"{}\" without its ids", excerpt(name));
    std::vector<int32_t> out;
    for (const auto& entry : ids) {
        const int64_t id = integer_of(entry).value_or(-1);
        if (id < 0 || id >= kVocabSizeMax)
            throw UserError(ExitCode::model, where, "the template's \"{}\" has an impossible id", excerpt(name));
        out.push_back(static_cast<int32_t>(id));
    }
    return out;
}

PostTemplate read_template(const SortedJson& json, Where where) {
    check_members(json, "TemplateProcessing", {"type", "single", "pair", "special_tokens"}, where);
    const SortedJson& single = member(json, "single");
    if (!single.is_array() || single.size() > 64)
        throw UserError(ExitCode::model, where, "TemplateProcessing has no list \"single\"");
    PostTemplate out;
    bool seen_text = false;
    for (const auto& piece : single) {
        check_members(piece, "a template piece", {"SpecialToken", "Sequence"}, where);
        if (piece.contains("Sequence")) {
            if (seen_text || string_member(piece["Sequence"], "id", "", where) != "A")
                throw UserError(ExitCode::model, where,
                                "the template \"single\" is not one text with tokens around it");
            seen_text = true;
            continue;
        }
        const auto ids = template_ids(member(piece, "SpecialToken"), member(json, "special_tokens"), where);
        auto& side = seen_text ? out.suffix : out.prefix;
        side.insert(side.end(), ids.begin(), ids.end());
    }
    if (!seen_text) throw UserError(ExitCode::model, where, "the template \"single\" leaves out the text");
    return out;
}

}  // namespace

PreTokenizerStep byte_level_step(bool add_prefix_space, bool use_regex) {
    return ByteLevelStep{add_prefix_space, use_regex, Pattern::regex(kGpt2Split, "ByteLevel")};
}

Normalizer read_normalizer(const SortedJson& json, Where where) {
    std::vector<NormalizerStep> steps;
    for_each_step(json, "normalizer", "normalizers", where,
                  [&](const SortedJson& step) { steps.push_back(read_normalizer_step(step, where)); });
    return Normalizer(std::move(steps));
}

PreTokenizer read_pre_tokenizer(const SortedJson& json, Where where) {
    std::vector<PreTokenizerStep> steps;
    for_each_step(json, "pre-tokenizer", "pretokenizers", where,
                  [&](const SortedJson& step) { steps.push_back(read_pre_tokenizer_step(step, where)); });
    return PreTokenizer(std::move(steps));
}

Decoder read_decoder(const SortedJson& json, Where where) {
    if (json.is_null()) return Decoder();
    std::vector<DecodeStep> steps;
    for_each_step(json, "decoder", "decoders", where,
                  [&](const SortedJson& step) { steps.push_back(read_decode_step(step, where)); });
    return Decoder(std::move(steps));
}

PostTemplate read_post_processor(const SortedJson& json, Where where) {
    PostTemplate out;
    for_each_step(json, "post-processor", "processors", where, [&](const SortedJson& step) {
        const std::string type = type_of(step, "post-processor", where);
        if (type == "ByteLevel") return;  // changes offsets only
        if (type != "TemplateProcessing") refuse("post-processor", type, where);
        PostTemplate outer = read_template(step, where);
        out.prefix.insert(out.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
        out.suffix.insert(out.suffix.end(), outer.suffix.begin(), outer.suffix.end());
    });
    return out;
}

}  // namespace windlass
