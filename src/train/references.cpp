#include "train/references.h"

#include <cmath>

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "data/data.h"
#include "format/base_checksum.h"
#include "format/checksum.h"
#include "infer/preference.h"

namespace windlass {
namespace {

constexpr int64_t kFileBytesMax = int64_t{4} << 30;
constexpr int kVersion = 1;
constexpr int64_t kModelConfigBytesMax = int64_t{16} << 20;
constexpr std::string_view kConfigWords = ", config ";  // of a key; those of earlier versions end before it

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

// False where the file is not there, damaged, or of something else.
bool load(FileSystem& files, const std::string& path, const std::string& key, Session& session) {
    if (!files.exists(path)) return false;
    try {
        const Json json = parse_json(read_text(files, path, kFileBytesMax), path, ExitCode::storage);
        return json.is_object() && json.value("version", 0) == kVersion && json.value("of", "") == key &&
               take_numbers(json, "train", 2 * session.data->pair_count(), session.references) &&
               take_numbers(json, "eval", 2 * session.data->eval_count(), session.eval_references);
    } catch (const UserError& error) {
        log_warning("{}", error.what());
        return false;
    }
}

void compute(Session& session, Engine& engine) {
    const RunData& data = *session.data;
    log_info("finding what the reference says of {} pairs of answers", data.pair_count() + data.eval_count());
    session.references = row_losses(engine, 2 * data.pair_count(), [&](int64_t first, int64_t count) {
        return data.read_pairs(first / 2, count / 2);
    });
    session.eval_references = row_losses(engine, 2 * data.eval_count(), [&](int64_t first, int64_t count) {
        return data.read_eval(first / 2, count / 2);
    });
}

// Runs share it where the same library multiplies: others find other bits.
std::string shared_path(const Session& session, const std::string& key) {
    const Coefficients& by = session.identity.coefficients;
    const std::string all = fmt::format("{}, {}, {}", key, by.products, by.library);
    return fmt::format("{}/{:016x}.references.json", token_cache_folder(session.config.cache_dir),
                       xxh3_64(std::as_bytes(std::span(all))));
}

std::string text_of(const Session& session, const std::string& key) {
    return Json({{"version", kVersion}, {"of", key}, {"train", session.references}, {"eval", session.eval_references}})
               .dump() +
           "\n";
}

}  // namespace

// An adapter is none of it: the reference has none.
std::string references_key(FileSystem& files, const Session& session) {
    const Numerics& numerics = session.numerics();
    const std::string& known = session.identity.base_checksum;
    const std::string config = read_text(files, path_in(session.folder.path(), "config.json"), kModelConfigBytesMax);
    return fmt::format("rows {}, eval {}, base {} kept {}, {} by {}, {} rows of {}{}{:016x} without [{}]",
                       session.data->fingerprint(), session.data->eval_fingerprint(),
                       known.empty() ? base_checksum(session.folder) : known, session.config.weight_storage,
                       dtype_name(numerics.compute), numerics.kernel_path, numerics.micro_batch_size,
                       fmt::join(numerics.sequence_lengths, ","), kConfigWords,
                       xxh3_64(std::as_bytes(std::span(config))), fmt::join(session.config.ignore_config_keys, ","));
}

bool take_references(FileSystem& files, Session& session, const RunFolder& folder, const std::string& key,
                     bool reference_is_gone) {
    const std::string of_run = folder.file(kReferencesName);
    // The run's own may have been written by an earlier version, whose key said less.
    if (load(files, of_run, key, session) || load(files, of_run, key.substr(0, key.rfind(kConfigWords)), session))
        return true;
    const bool is_known = load(files, shared_path(session, key), key, session);
    if (is_known) write_text_atomic(files, of_run, text_of(session, key));
    if (!is_known && reference_is_gone)
        throw UserError(ExitCode::storage, of_run, "does not hold what the reference said when the run began")
            .hint("train_data, eval_data and eval_samples as they were; or begin anew, with --overwrite");
    return is_known;
}

void find_references(FileSystem& files, Session& session, const RunFolder& folder, const std::string& key,
                     Engine& engine) {
    compute(session, engine);
    const std::string text = text_of(session, key);
    write_text_atomic(files, folder.file(kReferencesName), text);
    write_text_atomic(files, shared_path(session, key), text);
}

}  // namespace windlass
