#include "config/foreign/value.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"
#include "config/config.h"

namespace windlass {
namespace {

constexpr int kDepthMax = 8;
constexpr int kValuesMax = 20000;

class Reader {
  public:
    explicit Reader(const std::string& path) : path_(path) {}

    ForeignValue read(const YAML::Node& node, int depth) {
        if (++count_ > kValuesMax || depth > kDepthMax)
            throw UserError(ExitCode::usage, fmt::format("{}:{}", path_, node.Mark().line + 1),
                            "more than {} values, or deeper than {} levels: no training file is", kValuesMax,
                            kDepthMax);
        ForeignValue value;
        if (node.IsScalar()) {
            value = {ForeignValue::Kind::scalar, node.Scalar(), {}};
        } else if (node.IsSequence()) {
            value.kind = ForeignValue::Kind::list;
            for (const YAML::Node& item : node) value.items.push_back(read(item, depth + 1));
        } else if (node.IsMap()) {
            value.kind = ForeignValue::Kind::map;
            for (const auto& pair : node) value.members.push_back({key(pair.first), read(pair.second, depth + 1)});
        }
        return value;
    }

    std::string key(const YAML::Node& node) const {
        if (node.IsScalar()) return node.Scalar();
        throw UserError(ExitCode::usage, fmt::format("{}:{}", path_, node.Mark().line + 1), "a key must be a word");
    }

  private:
    const std::string& path_;
    int count_ = 0;
};

bool is_word(std::string_view text, std::initializer_list<std::string_view> words) {
    std::string lower(text);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::ranges::find(words, lower) != words.end();
}

}  // namespace

std::string_view ForeignValue::member(std::string_view name) const {
    for (const auto& [key, value] : members) {
        if (key == name && value.kind == Kind::scalar) return value.text;
    }
    return "";
}

bool ForeignValue::is_true() const {
    return kind == Kind::scalar && is_word(text, {"true", "yes", "on", "1"});
}

bool ForeignValue::is_false() const {
    return kind == Kind::null || (kind == Kind::scalar && is_word(text, {"false", "no", "off", "null", "none", ""})) ||
           (kind == Kind::list && items.empty()) || (kind == Kind::map && members.empty());
}

std::vector<std::string> ForeignValue::texts() const {
    if (kind == Kind::scalar) return {text};
    std::vector<std::string> found;
    for (const ForeignValue& item : items) {
        if (item.kind == Kind::scalar) found.push_back(item.text);
    }
    return found;
}

ForeignValue list_of(const std::vector<std::string>& texts) {
    ForeignValue list{ForeignValue::Kind::list, "", {}};
    for (const std::string& text : texts) list.items.push_back({ForeignValue::Kind::scalar, text, {}});
    return list;
}

ForeignValue parted_by_commas(const std::vector<std::string>& texts) {
    std::vector<std::string> parts;
    for (const std::string& text : texts) {
        for (size_t begin = 0; begin <= text.size();) {
            const size_t end = std::min(text.find(',', begin), text.size());
            const size_t first = text.find_first_not_of(' ', begin);
            if (first < end) parts.push_back(text.substr(first, end - first));
            begin = end + 1;
        }
    }
    return list_of(parts);
}

std::vector<ForeignKey> read_foreign_file(FileSystem& files, const std::string& path) {
    if (!files.exists(path)) throw UserError(ExitCode::usage, path, "there is no such file").hint("a training file");
    const std::string text = read_text(files, path, kConfigBytesMax);
    std::vector<ForeignKey> keys;
    try {
        const YAML::Node document = YAML::Load(text);
        if (!document.IsMap()) throw UserError(ExitCode::usage, path, "expected lines of the form \"key: value\"");
        Reader reader(path);
        for (const auto& pair : document) keys.push_back({reader.key(pair.first), reader.read(pair.second, 1)});
    } catch (const YAML::Exception& error) {
        throw UserError(ExitCode::usage, fmt::format("{}:{}", path, error.mark.line + 1), "not valid YAML: {}",
                        error.msg);
    }
    return keys;
}

}  // namespace windlass
