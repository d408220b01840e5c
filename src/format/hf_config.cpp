#include "format/hf_config.h"

#include "base/json.h"
#include "base/printable.h"
#include "base/units.h"
#include "format/hf_config_keys.h"

namespace windlass {

// One object of the document: the whole, or a section that a reader opened.
struct HfConfig::Node {
    const SortedJson* object = nullptr;
    std::string where;
    std::string name;  // of a section, as ignore() takes it: "rope_scaling"; of the whole ""
    std::set<std::string, std::less<>> read;
    std::map<std::string, std::unique_ptr<Node>, std::less<>> sections;
};

struct HfConfig::Document {
    std::string text;
    SortedJson json;
    Node root;
    std::vector<std::string> ignored, unread;
};

namespace {

template <typename... Args>
UserError config_error(std::string_view where, std::string_view key, fmt::format_string<Args...> format,
                       Args&&... args) {
    return UserError(ExitCode::model, where, "\"{}\" {}", key, fmt::format(format, std::forward<Args>(args)...));
}

// The value as people quote it, cut where it is long.
std::string shown(const SortedJson& value) {
    if (value.is_structured() && value.size() > 16) return fmt::format("{} of {}", value.type_name(), value.size());
    return excerpt(value.dump(-1, ' ', false, SortedJson::error_handler_t::replace));
}

struct Found {
    std::string key;
    const SortedJson* value = nullptr;
};

// The one value among the spellings of a key; null is no value.
Found look_up(const SortedJson& object, const KeyNames& keys, std::string_view where) {
    Found found;
    for (const std::string& key : keys.all()) {
        const auto at = object.find(key);
        if (at == object.end() || at->is_null()) continue;
        if (found.value != nullptr && *found.value != *at)
            throw config_error(where, key, "is {}, but \"{}\", which means the same, is {}", shown(*at), found.key,
                               shown(*found.value));
        if (found.value == nullptr) found = {key, &*at};
    }
    return found;
}

// The value among the spellings, which all count as read; nothing if absent.
Found take(const SortedJson& object, const KeyNames& keys, std::string_view where,
           std::set<std::string, std::less<>>& read) {
    read.insert(keys.all().begin(), keys.all().end());
    return look_up(object, keys, where);
}

double checked_number(const Found& found, std::string_view where, double min, double max) {
    if (!found.value->is_number())
        throw config_error(where, found.key, "is {}, expected a number", shown(*found.value));
    const double value = found.value->get<double>();
    if (!(value >= min && value <= max))
        throw config_error(where, found.key, "is {}, expected {} to {}", value, min, max);
    return value;
}

int64_t checked_integer(const Found& found, std::string_view where, int64_t min, int64_t max) {
    constexpr double kExactMax = 9007199254740992.0;  // 2^53: integers beyond it are not exact in a double
    const SortedJson& json = *found.value;
    std::optional<int64_t> value;
    if (json.is_number_unsigned() && json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) {
        value = static_cast<int64_t>(json.get<uint64_t>());
    } else if (json.is_number_integer() && !json.is_number_unsigned()) {
        value = json.get<int64_t>();
    } else if (json.is_number_float() && std::abs(json.get<double>()) <= kExactMax &&
               json.get<double>() == std::floor(json.get<double>())) {
        value = static_cast<int64_t>(json.get<double>());
    }
    if (!value || *value < min || *value > max)
        throw config_error(where, found.key, "is {}, expected an integer in {}..{}", shown(json), min, max);
    return *value;
}

template <typename T>
T required(std::optional<T> value, const KeyNames& keys, std::string_view where) {
    if (!value) throw config_error(where, keys.first(), "is missing");
    return *std::move(value);
}

bool switched_off(const SortedJson& value, KeyMeaning meaning) {
    switch (meaning) {
        case KeyMeaning::off_by_false:
            return value == false || (value.is_number() && value == 0) || value == "" ||
                   (value.is_structured() && value.empty());
        case KeyMeaning::off_by_true:
            return value == true;
        case KeyMeaning::off_by_one:
            return value.is_number() && value == 1;
        default:
            return false;
    }
}

bool describes_quantised_weights(std::string_view key) {
    return key == "quantization_config" || key == "quantization" || key == "compression_config";
}

UserError unread_error(std::string_view where, std::string_view key, std::string_view value, bool has_code) {
    if (describes_quantised_weights(key))
        return config_error(where, key, "is {}: the weights are quantised, and such weights are not read", value);
    return config_error(where, key, "is {}: {}", value,
                        has_code ? "the model has its own code (\"auto_map\"), which may read it"
                                 : "it may change the model's mathematics and is not implemented");
}

UserError with_way_out(UserError error, std::string_view section, std::string_view key) {
    if (describes_quantised_weights(key))
        return error.hint(
            fmt::format("the model in bf16 or fp16 that this one was made from (weight_storage: nf4 keeps "
                        "its matrices in 4 bits); if the weights here are bf16 or fp16 all the same, "
                        "ignore_config_keys: [{}{}{}]",
                        section, section.empty() ? "" : ".", key));
    return error.hint(fmt::format("ignore_config_keys: [{}{}{}], if you know that the model is the same without it",
                                  section, section.empty() ? "" : ".", key));
}

}  // namespace

HfConfig HfConfig::parse(std::string text, std::string where) {
    if (static_cast<int64_t>(text.size()) > kBytesMax)
        throw UserError(ExitCode::model, where, "has {}, at most {} are read",
                        format_bytes(static_cast<int64_t>(text.size())), format_bytes(kBytesMax));
    auto document = std::make_shared<Document>();
    document->json = parse_sorted_json(text, where, ExitCode::model);
    if (!document->json.is_object())
        throw UserError(ExitCode::model, where, "is {}, expected an object", document->json.type_name());
    document->text = std::move(text);
    document->root = {.object = &document->json, .where = std::move(where)};
    Node* const root = &document->root;
    return HfConfig(std::move(document), root);
}

HfConfig HfConfig::apart() const {
    HfConfig config = parse(document_->text, document_->root.where);
    config.ignore(document_->ignored);
    return config;
}

const std::string& HfConfig::where() const {
    return node_->where;
}
const std::string& HfConfig::to_text() const {
    return document_->text;
}
std::string HfConfig::model_type() const {
    return text("model_type");
}

bool HfConfig::has(const KeyNames& keys) const {
    return look_up(*node_->object, keys, node_->where).value != nullptr;
}

bool HfConfig::mentions(std::string_view key) const {
    return node_->object->contains(key);
}

std::optional<int64_t> HfConfig::find_integer(const KeyNames& keys, int64_t min, int64_t max) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return std::nullopt;
    return checked_integer(found, node_->where, min, max);
}

std::optional<double> HfConfig::find_number(const KeyNames& keys, double min, double max) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return std::nullopt;
    return checked_number(found, node_->where, min, max);
}

std::optional<std::string> HfConfig::find_text(const KeyNames& keys) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return std::nullopt;
    if (!found.value->is_string())
        throw config_error(node_->where, found.key, "is {}, expected a string", shown(*found.value));
    return found.value->get<std::string>();
}

std::optional<std::vector<std::string>> HfConfig::find_texts(const KeyNames& keys) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return std::nullopt;
    const auto is_text = [](const SortedJson& item) { return item.is_string(); };
    if (!found.value->is_array() || !std::ranges::all_of(*found.value, is_text))
        throw config_error(node_->where, found.key, "is {}, expected a list of strings", shown(*found.value));
    return found.value->get<std::vector<std::string>>();
}

std::optional<std::vector<double>> HfConfig::find_numbers(const KeyNames& keys, double min, double max) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return std::nullopt;
    if (!found.value->is_array())
        throw config_error(node_->where, found.key, "is {}, expected a list of numbers", shown(*found.value));
    std::vector<double> numbers;
    for (const SortedJson& item : *found.value)
        numbers.push_back(checked_number({found.key, &item}, node_->where, min, max));
    return numbers;
}

bool HfConfig::flag(const KeyNames& keys, bool fallback) const {
    const Found found = take(*node_->object, keys, node_->where, node_->read);
    if (found.value == nullptr) return fallback;
    if (!found.value->is_boolean())
        throw config_error(node_->where, found.key, "is {}, expected true or false", shown(*found.value));
    return found.value->get<bool>();
}

int64_t HfConfig::integer(const KeyNames& keys, int64_t min, int64_t max) const {
    return required(find_integer(keys, min, max), keys, node_->where);
}
double HfConfig::number(const KeyNames& keys, double min, double max) const {
    return required(find_number(keys, min, max), keys, node_->where);
}
std::string HfConfig::text(const KeyNames& keys) const {
    return required(find_text(keys), keys, node_->where);
}
std::vector<std::string> HfConfig::texts(const KeyNames& keys) const {
    return required(find_texts(keys), keys, node_->where);
}

HfConfig HfConfig::section(std::string_view key) const {
    const std::string name(key);
    const Found found = take(*node_->object, name.c_str(), node_->where, node_->read);
    if (found.value == nullptr) throw config_error(node_->where, name, "is missing");
    if (!found.value->is_object())
        throw config_error(node_->where, name, "is {}, expected an object", shown(*found.value));
    std::unique_ptr<Node>& node = node_->sections[name];
    if (!node)
        node = std::make_unique<Node>(Node{.object = found.value,
                                           .where = node_->where + ": " + name,
                                           .name = node_->name.empty() ? name : node_->name + "." + name});
    return HfConfig(document_, node.get());
}

std::vector<std::string> HfConfig::section_keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : node_->object->items()) {
        if (value.is_object()) keys.push_back(key);
    }
    return keys;
}

void HfConfig::ignore(std::span<const std::string> keys) {
    for (const std::string& key : keys) {
        if (erase_member(document_->json, key)) document_->ignored.push_back(key);
    }
}

const std::vector<std::string>& HfConfig::ignored() const {
    return document_->ignored;
}

void HfConfig::finish(std::span<const std::string_view> neutral) const {
    const bool is_root = node_ == &document_->root;
    const bool has_code = document_->json.contains("auto_map");
    // A section may be the configuration of a model inside the model.
    const std::string type = find_text("model_type").value_or("");
    const bool is_model = is_root || !type.empty();
    if (is_root) document_->unread.clear();
    for (const auto& [key, value] : node_->object->items()) {
        if (value.is_null() || node_->read.contains(key) || std::ranges::find(neutral, key) != neutral.end()) continue;
        const KeyMeaning meaning = meaning_of(key);
        if (meaning == KeyMeaning::neutral || meaning == KeyMeaning::dropout || switched_off(value, meaning)) continue;
        if (is_model && meaning == KeyMeaning::unknown && !has_code && !transformers_reads(type, key)) {
            document_->unread.push_back(is_root ? key : node_->name + "." + key);
            continue;
        }
        throw with_way_out(unread_error(node_->where, key, shown(value), meaning == KeyMeaning::unknown && has_code),
                           node_->name, key);
    }
    for (const auto& [key, node] : node_->sections) HfConfig(document_, node.get()).finish(neutral);
}

const std::vector<std::string>& HfConfig::unread() const {
    return document_->unread;
}

std::vector<std::string> HfConfig::dropouts() const {
    std::vector<std::string> list;
    for (const auto& [key, value] : node_->object->items()) {
        if (meaning_of(key) == KeyMeaning::dropout && value.is_number() && value != 0)
            list.push_back(fmt::format("{} = {}", key, shown(value)));
    }
    return list;
}

}  // namespace windlass
