#include "config/foreign/draft.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "config/config_keys.h"
#include "config/config_values.h"

namespace windlass {
namespace {

// On one line, whatever the file holds.
std::string on_one_line(std::string text) {
    text = printable(excerpt(text));
    std::ranges::replace(text, '\n', ' ');
    return text;
}

}  // namespace

const ForeignValue& ForeignDraft::value(std::string_view name) const {
    static const ForeignValue kNone;
    const auto found = std::ranges::find(keys_, name, &ForeignKey::name);
    return found != keys_.end() ? found->value : kNone;
}

void ForeignDraft::set(std::string_view name, const ForeignValue& value, std::string_view from, std::string remark) {
    const ConfigKey* const key = find_config_key(name);
    if (key == nullptr) return drop(from, "this version has no such setting");
    ConfigEntry entry{.key = std::string(name)};
    entry.is_list = value.kind == ForeignValue::Kind::list;
    entry.is_null = value.kind == ForeignValue::Kind::null;
    entry.values = value.texts();
    if (value.kind == ForeignValue::Kind::map || (entry.is_list && entry.values.size() != value.items.size()))
        return drop(from, "expected one value, or a list of them");
    if (const std::string problem = assign_config_value(*key, entry, config_); !problem.empty())
        return drop(from, fmt::format("{}: {}", key->name, problem));
    config_.given.emplace(key->name);
    remarks_[std::string(key->name)] = std::move(remark);
}

void ForeignDraft::set(std::string_view key, const std::string& value, std::string_view from, std::string remark) {
    set(key, ForeignValue{ForeignValue::Kind::scalar, value, {}}, from, std::move(remark));
}

void ForeignDraft::drop(std::string_view from, std::string reason) {
    dropped_.push_back({on_one_line(std::string(from)), on_one_line(std::move(reason))});
}

void ForeignDraft::unset(std::string_view name, std::string_view from, std::string reason) {
    if (!is_set(name)) return;
    const Config usual;
    const ConfigKey& key = *find_config_key(name);
    std::visit([&](auto field) { config_.*field = usual.*field; }, key.field);
    config_.given.erase(std::string(key.name));
    drop(from, std::move(reason));
}

void ForeignDraft::remark(std::string_view key, std::string_view text) {
    if (!is_set(key)) return;
    std::string& remark = remarks_[std::string(key)];
    remark += fmt::format("{}{}", remark.empty() ? "" : "; ", text);
}

std::string ForeignDraft::yaml() const {
    std::string text;
    for (const ConfigKey& key : config_keys()) {
        if (!is_set(key.name)) continue;
        const auto remark = remarks_.find(key.name);
        const bool has_remark = remark != remarks_.end() && !remark->second.empty();
        text += fmt::format("{}: {}{}\n", key.name, config_value_text(key, config_),
                            has_remark ? "  # " + on_one_line(remark->second) : "");
    }
    return text;
}

}  // namespace windlass
