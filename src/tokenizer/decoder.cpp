#include "tokenizer/decoder.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace windlass {
namespace {

using Tokens = std::vector<std::string>;

std::string join(const Tokens& tokens, std::string_view separator) {
    std::string out;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) out += separator;
        out += tokens[i];
    }
    return out;
}

// The byte of "<0xNN>".
std::optional<uint8_t> fallback_byte(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    if (error != std::errc() || end != token.data() + 5) return std::nullopt;
    return byte;
}

Tokens run(const ByteLevelDecode&, Tokens tokens) {
    std::string bytes;
    // A token that is not spelled in the byte alphabet, such as an added one, is its own text.
    for (const auto& token : tokens) bytes += unspell_bytes(token).value_or(token);
    return {to_valid_utf8(bytes)};
}

Tokens run(const ByteFallbackDecode&, Tokens tokens) {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
        if (is_valid_utf8(bytes)) {
            if (!bytes.empty()) out.push_back(bytes);
        } else {
            out.insert(out.end(), bytes.size(), std::string(kReplacementCharacter));
        }
        bytes.clear();
    };
    for (auto& token : tokens) {
        if (const auto byte = fallback_byte(token)) {
            bytes.push_back(static_cast<char>(*byte));
            continue;
        }
        flush();
        out.push_back(std::move(token));
    }
    flush();
    return out;
}

// What one step may make of a token. Many steps may double it many times: all of them have this for a bound.
size_t longest(std::string_view token) {
    constexpr size_t kTokenBytesMax = size_t{1} << 20;
    return std::max(token.size(), kTokenBytesMax);
}

Tokens run(const FuseDecode&, Tokens tokens) {
    return {join(tokens, "")};
}

Tokens run(const ReplaceDecode& step, Tokens tokens) {
    for (auto& token : tokens) token = step.pattern.replace_all(token, step.replacement, longest(token));
    return tokens;
}

Tokens run(const StripDecode& step, Tokens tokens) {
    for (auto& token : tokens) {
        std::string_view rest = token;
        for (int i = 0; i < step.start && rest.starts_with(step.content); ++i) rest.remove_prefix(step.content.size());
        for (int i = 0; i < step.stop && rest.ends_with(step.content); ++i) rest.remove_suffix(step.content.size());
        token = std::string(rest);
    }
    return tokens;
}

Tokens run(const MetaspaceDecode& step, Tokens tokens) {
    const Pattern mark = Pattern::literal(step.mark);
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = mark.replace_all(tokens[i], i == 0 && step.drop_first ? "" : " ", longest(tokens[i]));
    return tokens;
}

}  // namespace

std::string Decoder::decode(std::vector<std::string> tokens) const {
    if (!exists_) return join(tokens, " ");
    for (const auto& step : steps_)
        tokens = std::visit([&](const auto& concrete) { return run(concrete, std::move(tokens)); }, step);
    return join(tokens, "");
}

}  // namespace windlass
