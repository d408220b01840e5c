#include "train/references.h"

#include <cmath>
#include <cstring>

#include "base/activity.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/units.h"
#include "config/user_folder.h"
#include "data/data.h"
#include "data/token_folder.h"
#include "format/base_checksum.h"
#include "format/checksum.h"
#include "format/checksummed_json.h"
#include "infer/preference.h"

namespace windlass {
namespace {

constexpr int64_t kFileBytesMax = int64_t{4} << 30;
constexpr int kVersion = 1;

bool take_numbers(const Json& json, const char* key, int64_t count, std::vector<double>& into) {
    if (!json.contains(key) || !json[key].is_array() || std::ssize(json[key]) != count) return false;
    std::vector<double> numbers;
    for (const Json& number : json[key]) {
        if (!number.is_number() || !std::isfinite(number.get<double>())) return false;
        numbers.push_back(number.get<double>());
    }
    into = std::move(numbers);
    return true;
}

// Nothing if the file is of something else. Throws UserError(storage) if it is damaged.
std::optional<References> parse(const std::string& text, const std::string& path, const std::string& key,
                                const ReferenceCounts& pairs) {
    try {
        const Json json = parse_json(text, path, ExitCode::storage);
        const bool is_of_key = json.at("of").get<std::string>() == key;
        if (integer_of(json.at("version")).value() != kVersion || !is_of_key) return std::nullopt;
        References found;
        if (take_numbers(json, "train", 2 * pairs.training, found.training) &&
            take_numbers(json, "eval", 2 * pairs.evaluated, found.evaluated))
            return found;
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, path, "is damaged: {}", excerpt(error.what()));
    } catch (const std::bad_optional_access&) {
        throw UserError(ExitCode::storage, path, "is damaged: its version is no integer");
    }
    throw UserError(ExitCode::storage, path, "is damaged: it does not hold a finite number for each answer");
}

// As read_references, but a damaged file, which becomes `damage`, counts as none.
std::optional<References> load_if_whole(FileSystem& files, const std::string& path, const std::string& key,
                                        const RunData& data, std::optional<UserError>& damage) {
    try {
        return read_references(files, path, key, {data.pair_count(), data.eval_count()});
    } catch (const UserError& error) {
        damage = error;
        return std::nullopt;
    }
}

References compute(const RunData& data, Engine& engine) {
    References found;
    log_info("computing the reference's log-likelihoods of {} pairs of answers", data.pair_count() + data.eval_count());
    const int64_t rows = 2 * data.pair_count();
    Activity finding("reference log-likelihoods", rows + 2 * data.eval_count());
    found.training = row_losses(engine, rows, [&](int64_t first, int64_t count) {
        finding.done_to(first);
        return data.read_pairs(first / 2, count / 2);
    });
    found.evaluated = row_losses(engine, 2 * data.eval_count(), [&](int64_t first, int64_t count) {
        finding.done_to(rows + first);
        return data.read_eval(first / 2, count / 2);
    });
    return found;
}

// Runs share it where the same library multiplies: others find other bits. Empty where there is no cache.
std::string shared_path(const Session& session, const std::string& key) {
    const Coefficients& by = session.identity.coefficients;
    const std::string all = fmt::format("{}, {}, {}", key, by.products, by.library);
    const std::string folder = token_cache_folder(session.config.cache_dir);
    if (folder.empty()) return "";
    return fmt::format("{}/{:016x}.references.json", folder, xxh3_64(std::as_bytes(std::span(all))));
}

// What is done with that file is left out where the cache cannot be used: the run has its own.
template <typename Use>
bool use_shared(const Session& session, const std::string& key, Use use) {
    const std::string path = shared_path(session, key), &cache_dir = session.config.cache_dir;
    if (path.empty()) return false;
    try {
        return use(path);
    } catch (const MachineError& error) {
        note_no_cache(parent_folder(path), std::strerror(error.error_number()), token_cache_setting(cache_dir));
        return false;
    }
}

std::string text_of(const References& found, const std::string& key) {
    return with_checksum(
        Json({{"version", kVersion}, {"of", key}, {"train", found.training}, {"eval", found.evaluated}}).dump());
}

}  // namespace

std::optional<References> read_references(FileSystem& files, const std::string& path, const std::string& key,
                                          const ReferenceCounts& pairs) {
    if (!files.exists(path)) return std::nullopt;
    const std::string text = read_text(files, path, kFileBytesMax);
    require_checksum(text, path, "");
    std::optional<References> found = parse(text, path, key, pairs);
    if (found && text_checksum(text) == TextChecksum::absent) write_text_atomic(files, path, with_checksum(text));
    return found;
}

// The adapter is left out: the reference has none.
std::string references_key(const Session& session) {
    const Numerics& numerics = session.numerics();
    const std::string& known = session.identity.base_checksum;
    std::string config;
    for (const auto& [name, value] : session.identity.model_config) config += fmt::format("{}={}\n", name, value);
    return fmt::format("rows {}, eval {}, base {} kept {}, {} by {}, {} rows of {}, config {:016x} without [{}]",
                       session.data->fingerprint(), session.data->eval_fingerprint(),
                       known.empty() ? base_checksum(session.folder) : known, session.config.weight_storage,
                       dtype_name(numerics.compute), numerics.kernel_path, numerics.micro_batch_size,
                       fmt::join(numerics.sequence_lengths, ","), xxh3_64(bytes_of(config)),
                       fmt::join(session.config.ignore_config_keys, ","));
}

std::optional<References> take_references(FileSystem& files, const Session& session, const RunFolder& folder,
                                          const std::string& key, bool reference_is_gone) {
    const std::string of_run = folder.file(kReferencesName);
    std::optional<UserError> damage, shared_damage;
    std::optional<References> found = load_if_whole(files, of_run, key, *session.data, damage);
    if (found) return found;
    use_shared(session, key, [&](const std::string& path) {
        found = load_if_whole(files, path, key, *session.data, shared_damage);
        return found.has_value();
    });
    constexpr std::string_view kAgain = "begin again, with --overwrite";
    if (!found && reference_is_gone && damage) throw UserError(*damage).hint(kAgain);
    if (!found && reference_is_gone)
        throw UserError(ExitCode::storage, of_run, "does not hold the reference's log-likelihoods of this run")
            .hint(fmt::format("train_data, eval_data and eval_samples as they were; or {}", kAgain));
    if (damage) log_warning("{}; {}", damage->what(), found ? "a copy in cache_dir is used" : "it is computed again");
    if (shared_damage) log_warning("{}; it is computed again", shared_damage->what());
    if (found) write_text_atomic(files, of_run, text_of(*found, key));
    return found;
}

References find_references(FileSystem& files, const Session& session, const RunFolder& folder, const std::string& key,
                           Engine& engine) {
    References found = compute(*session.data, engine);
    const std::string text = text_of(found, key);
    write_text_atomic(files, folder.file(kReferencesName), text);
    use_shared(session, key, [&](const std::string& path) {
        files.make_folders(parent_folder(path));
        write_text_atomic(files, path, text);
        return true;
    });
    return found;
}

}  // namespace windlass
