#include <xxhash.h>

#include "tokenizer/parts.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

bool TokenizerFolder::has(const std::string& name) const {
    return files_.exists(path(name));
}

const std::string& TokenizerFolder::text(const std::string& name, int64_t max_bytes) {
    const auto entry = texts_.find(name);
    if (entry != texts_.end()) return entry->second;
    return texts_[name] = read_text(files_, path(name), max_bytes);
}

const SortedJson& TokenizerFolder::config(const std::string& name) {
    const auto entry = configs_.find(name);
    if (entry != configs_.end()) return entry->second;
    SortedJson json = SortedJson::object();
    if (has(name)) json = parse_sorted_json(text(name, kTokenizerConfigBytesMax), path(name), ExitCode::model);
    if (!json.is_object()) throw UserError(ExitCode::model, path(name), "the file is not a JSON object");
    return configs_[name] = std::move(json);
}

uint64_t add_to_hash(uint64_t hash, std::string_view part) {
    return XXH3_64bits_withSeed(part.data(), part.size(), hash);
}

}  // namespace windlass
