#include "base/json.h"
#include "model/save.h"

namespace windlass {
namespace {

const char* torch_name(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return "bfloat16";
        case DType::f16:
            return "float16";
        default:
            return "float32";
    }
}

// The text with the value after the `"key":` at this place replaced; empty when no string or null is there.
std::string with_value(const std::string& text, size_t key_end, const std::string& value) {
    const auto skip = [&](size_t at, const char* what) { return text.find_first_not_of(what, at); };
    const size_t colon = skip(key_end, " \t\r\n");
    if (colon == std::string::npos || text[colon] != ':') return "";
    const size_t begin = skip(colon + 1, " \t\r\n");
    if (begin == std::string::npos) return "";
    size_t end = std::string::npos;
    if (text[begin] == '"') end = text.find('"', begin + 1);
    if (text.compare(begin, 4, "null") == 0) end = begin + 3;
    if (end == std::string::npos) return "";
    return text.substr(0, begin) + value + text.substr(end + 1);
}

// Sets a key of the document, which holds it, by editing the text where that gives exactly the wanted document: the
// same words elsewhere, in a section or in a string, give another one. A document that defeats this is written again.
std::string with_key(const std::string& text, const std::string& key, const std::string& value,
                     const std::string& where) {
    Json wanted = parse_json(text, where, ExitCode::model);
    wanted[key] = value;
    const std::string quoted = fmt::format("\"{}\"", key);
    for (size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
        const std::string tried = with_value(text, at + quoted.size(), fmt::format("\"{}\"", value));
        if (Json::accept(tried) && Json::parse(tried) == wanted) return tried;
    }
    return wanted.dump(2) + "\n";
}

}  // namespace

std::string config_with_dtype(const std::string& text, DType dtype, const std::string& where) {
    const Json before = parse_json(text, where, ExitCode::model);
    const std::string name = torch_name(dtype);
    std::string after = text;
    for (const char* key : {"dtype", "torch_dtype"}) {
        if (before.contains(key)) after = with_key(after, key, name, where);
    }
    if (before.contains("dtype") || before.contains("torch_dtype")) return after;
    const size_t inside = text.find('{') + 1;
    return fmt::format("{}\n  \"torch_dtype\": \"{}\"{}{}", text.substr(0, inside), name, before.empty() ? "\n" : ",",
                       text.substr(inside));
}

std::string config_untied(const std::string& text, const std::string& where) {
    constexpr const char* kTie = "tie_word_embeddings";
    Json json = parse_json(text, where, ExitCode::model);
    json[kTie] = false;
    if (const auto inner = json.find("text_config"); inner != json.end() && inner->is_object()) (*inner)[kTie] = false;
    return json.dump(2) + "\n";
}

std::string config_without(const std::string& text, std::span<const std::string> keys, const std::string& where) {
    if (keys.empty()) return text;
    Json json = parse_json(text, where, ExitCode::model);
    for (const std::string& key : keys) erase_member(json, key);
    return json.dump(2) + "\n";
}

}  // namespace windlass
