#include "tokenizer/vocab.h"

#include "base/error.h"
#include "base/printable.h"

namespace windlass {

void Vocab::add(std::string token, int64_t id, std::string_view where) {
    if (id < 0 || id >= kVocabSizeMax)
        throw UserError(ExitCode::model, where, "token \"{}\" has id {}, ids are 0 to {}", excerpt(token), id,
                        kVocabSizeMax - 1);
    if (id >= end_id()) tokens_.resize(static_cast<size_t>(id) + 1, nullptr);
    const auto [entry, is_new] = ids_.try_emplace(std::move(token), static_cast<int32_t>(id));
    if (entry->second != id)
        throw UserError(ExitCode::model, where, "token \"{}\" has two ids, {} and {}", excerpt(entry->first),
                        entry->second, id);
    if (!is_new) return;
    const std::string* holder = tokens_[static_cast<size_t>(id)];
    if (holder != nullptr)
        throw UserError(ExitCode::model, where, "id {} belongs to two tokens, \"{}\" and \"{}\"", id, excerpt(*holder),
                        excerpt(entry->first));
    tokens_[static_cast<size_t>(id)] = &entry->first;
}

std::optional<int32_t> Vocab::find(std::string_view token) const {
    const auto entry = ids_.find(token);
    if (entry == ids_.end()) return std::nullopt;
    return entry->second;
}

bool Vocab::has(int32_t id) const {
    return id >= 0 && id < end_id() && tokens_[static_cast<size_t>(id)] != nullptr;
}

std::string_view Vocab::token(int32_t id) const {
    return has(id) ? std::string_view(*tokens_[static_cast<size_t>(id)]) : std::string_view();
}

}  // namespace windlass
