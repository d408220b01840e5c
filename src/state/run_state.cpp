#include "state/run_state.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "config/config_keys.h"
#include "op/batch.h"

namespace windlass {
namespace {

constexpr int kVersion = 1;
const std::string kAsFile = "as_file", kF8 = "f8", kNf4 = "nf4", kEachStep = "each_step";

Json numerics_json(const Numerics& n) {
    return {{"compute", dtype_name(n.compute)}, {"micro_rows", n.micro_rows},
            {"micro_count", n.micro_count},     {"row_lengths", n.row_lengths},
            {"kernel_path", n.kernel_path},     {"state_format", state_format_name(n.state_format)}};
}

// What is no integer, or one beyond int64_t, throws std::bad_optional_access: get() would convert it to any number.
int64_t integer(const Json& json, const char* key) {
    return integer_of(json.at(key)).value();
}
std::vector<int64_t> integers(const Json& list) {
    std::vector<int64_t> values;
    for (const Json& each : list) values.push_back(integer_of(each).value());
    return values;
}
int small(const Json& value) {
    const int64_t integer = integer_of(value).value();
    if (integer < INT_MIN || integer > INT_MAX) throw std::bad_optional_access();
    return static_cast<int>(integer);
}

Numerics read_numerics(const Json& json) {
    Numerics n;
    n.compute = dtype_from_name(json.at("compute").get<std::string>()).value();
    n.micro_rows = integer(json, "micro_rows");
    n.micro_count = integer(json, "micro_count");
    n.row_lengths = integers(json.at("row_lengths"));
    n.kernel_path = json.at("kernel_path").get<std::string>();
    n.state_format = state_format_from_name(json.value("state_format", "s1")).value();  // older runs had no other
    return n;
}

Json schedule_json(const LrSchedule& s) {
    return {{"type", s.type},
            {"peak", s.peak},
            {"total_steps", s.total_steps},
            {"warmup_steps", s.warmup_steps},
            {"min_ratio", s.min_ratio},
            {"cycles", s.cycles},
            {"power", s.power},
            {"decay_steps", s.decay_steps}};
}

LrSchedule read_schedule(const Json& json) {
    return {.type = json.at("type").get<std::string>(),
            .peak = json.at("peak").get<double>(),
            .total_steps = integer(json, "total_steps"),
            .warmup_steps = integer(json, "warmup_steps"),
            .min_ratio = json.at("min_ratio").get<double>(),
            .cycles = integer(json, "cycles"),
            .power = json.at("power").get<double>(),
            .decay_steps = integer(json, "decay_steps")};
}

bool is_sane(const RunState& s) {
    const Numerics& n = s.numerics;
    return s.step >= 0 && s.position.epoch >= 0 && s.position.row >= 0 && n.micro_rows > 0 && n.micro_count > 0 &&
           n.micro_rows <= 65536 && n.micro_count <= (int64_t{1} << 20) && !n.row_lengths.empty() &&
           n.row_lengths.size() <= 4 && n.row_lengths.front() > 0 && n.row_lengths.back() <= (int64_t{1} << 20) &&
           s.directions >= 1 && s.directions <= kDirectionsMax && folding_from_name(s.fold_updates) &&
           (s.weight_storage == kF8 ||
            (s.scale_exponents.empty() && (s.weight_storage == kAsFile || s.weight_storage == kNf4))) &&
           std::is_sorted(n.row_lengths.begin(), n.row_lengths.end()) && s.clipped_steps >= 0 &&
           s.clipped_steps <= s.applied_steps;
}

}  // namespace

std::string run_state_text(const RunState& s) {
    Json json = {{"format", "windlass run state"},
                 {"version", kVersion},
                 {"step", s.step},
                 {"epoch", s.position.epoch},
                 {"row", s.position.row},
                 {"seed", s.seed},
                 {"method", s.method},
                 {"data", s.data_fingerprint},
                 {"param_groups", s.param_groups},
                 {"frozen_is_split", s.frozen_is_split},
                 {"numerics", numerics_json(s.numerics)},
                 {"lr_schedule", schedule_json(s.schedule)},
                 {"tokens_total", s.tokens_total},
                 {"last_loss", std::isfinite(s.last_loss) ? s.last_loss : 0.0},
                 {"bad_steps", s.bad_steps},
                 {"applied_steps", s.applied_steps},
                 {"clipped_steps", s.clipped_steps},
                 {"metrics", s.last_line.empty() ? Json() : parse_json(s.last_line, "metrics", ExitCode::internal)}};
    if (!s.run_id.empty()) json["run_id"] = s.run_id;
    if (!s.update.empty()) json["update"] = s.update;
    if (!s.settings.empty()) json["settings"] = s.settings;
    if (s.weight_storage != kAsFile) json["weight_storage"] = s.weight_storage;
    if (s.fold_updates != kEachStep) json["fold_updates"] = s.fold_updates;
    if (s.directions != 1) json["directions"] = s.directions;
    if (!s.scale_exponents.empty()) json["scale_exponents"] = s.scale_exponents;
    return json.dump();
}

RunState parse_run_state(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::storage);
    try {
        if (integer(json, "version") != kVersion)
            throw UserError(ExitCode::storage, where, "run state has version {}, this program reads {}",
                            integer(json, "version"), kVersion);
        RunState s;
        s.step = integer(json, "step");
        s.position = {integer(json, "epoch"), integer(json, "row")};
        if (!json.at("seed").is_number_unsigned()) throw std::bad_optional_access();
        s.seed = json["seed"].get<uint64_t>();
        s.method = json.at("method").get<std::string>();
        s.data_fingerprint = json.at("data").get<std::string>();
        s.param_groups = json.value("param_groups", std::vector<std::string>());  // older runs had none
        s.run_id = json.value("run_id", std::string());
        s.update = json.value("update", UpdateSettings());
        s.settings = json.value("settings", RunSettings());
        s.weight_storage = json.value("weight_storage", kAsFile);
        s.frozen_is_split = json.value("frozen_is_split", true);
        s.fold_updates = json.value("fold_updates", kEachStep);
        s.directions = json.contains("directions") ? small(json.at("directions")) : 1;
        for (const Json& each : json.value("scale_exponents", Json::array())) s.scale_exponents.push_back(small(each));
        s.numerics = read_numerics(json.at("numerics"));
        s.schedule = read_schedule(json.at("lr_schedule"));
        s.tokens_total = integer(json, "tokens_total");
        s.last_loss = json.at("last_loss").get<double>();
        s.bad_steps = integer(json, "bad_steps");
        s.applied_steps = json.contains("applied_steps") ? integer(json, "applied_steps") : 0;
        s.clipped_steps = json.contains("clipped_steps") ? integer(json, "clipped_steps") : 0;
        if (json.contains("metrics") && json["metrics"].is_object()) s.last_line = json["metrics"].dump();
        if (!is_sane(s)) throw UserError(ExitCode::storage, where, "the run state holds numbers that no run has");
        return s;
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "not a run state: {}", error.what());
    } catch (const std::bad_optional_access&) {
        throw UserError(ExitCode::storage, where,
                        "not a run state: a number is no integer, or a dtype or state format unknown");
    }
}

namespace {

// What both say: another version may have had other keys.
std::vector<std::string> changed_settings(const RunState& recorded, const RunState& current, OnResume rule) {
    std::vector<std::string> changed;
    for (const auto& [name, is] : current.settings) {
        const auto was = recorded.settings.find(name);
        const ConfigKey* const key = find_config_key(name);
        // Where settings hold a key of the update, it belongs to a method that keeps a log: it may not change.
        const bool is_of_rule =
            key != nullptr && (key->resume == rule || (rule == OnResume::refused && key->resume == OnResume::by_name));
        if (!is_of_rule || was == recorded.settings.end() || was->second == is) continue;
        changed.push_back(fmt::format("{} was {}, is {}", name, was->second, is));
    }
    return changed;
}

}  // namespace

std::vector<std::string> require_same_run(const RunState& recorded, const RunState& current, std::string_view where) {
    std::vector<std::string> differences;
    const auto compare = [&](std::string_view name, const auto& was, const auto& is) {
        if (was != is) differences.push_back(fmt::format("{} was {}, is {}", name, was, is));
    };
    const Numerics &a = recorded.numerics, &b = current.numerics;
    compare("dtype", dtype_name(a.compute), dtype_name(b.compute));
    compare("per_device_train_batch_size", a.micro_rows, b.micro_rows);
    compare("gradient_accumulation_steps", a.micro_count, b.micro_count);
    compare("row lengths", fmt::format("{}", fmt::join(a.row_lengths, ", ")),
            fmt::format("{}", fmt::join(b.row_lengths, ", ")));
    compare("kernel path (WINDLASS_CPU)", a.kernel_path, b.kernel_path);
    compare("state_format", state_format_name(a.state_format), state_format_name(b.state_format));
    compare("seed", recorded.seed, current.seed);
    compare("method", recorded.method, current.method);
    const auto groups = [](const RunState& state) { return fmt::format("[{}]", fmt::join(state.param_groups, ", ")); };
    compare("param_groups", groups(recorded), groups(current));
    compare("weight_storage", recorded.weight_storage, current.weight_storage);
    compare("fold_updates", recorded.fold_updates, current.fold_updates);
    compare("training rows", recorded.data_fingerprint, current.data_fingerprint);
    if (!recorded.settings.empty() && !current.settings.empty())
        compare("directions", recorded.directions, current.directions);
    std::ranges::move(changed_settings(recorded, current, OnResume::refused), std::back_inserter(differences));
    if (differences.empty()) return changed_settings(recorded, current, OnResume::warned);
    throw UserError(ExitCode::usage, where, "this would not be the same run: {}", fmt::join(differences, "; "))
        .hint("the run's own settings (run.yaml), or a new output_dir");
}

std::vector<std::string> require_same_update(const RunState& recorded, const RunState& current,
                                             std::span<const std::string> allowed, std::string_view where) {
    if (recorded.update.empty() && !current.update.empty())
        log_warning("{} was written before {} were recorded; those of now are taken for the run's", where,
                    fmt::join(kUpdateSettings, ", "));
    if (recorded.update.empty() || current.update.empty()) return {};
    std::vector<std::string> refused, names, changed;
    for (const auto& [name, is] : current.update) {
        const auto was = recorded.update.find(name);
        if (was == recorded.update.end() || was->second == is) continue;
        const bool is_allowed = std::ranges::find(allowed, name) != allowed.end();
        (is_allowed ? changed : refused).push_back(fmt::format("{} was {}, is {}", name, was->second, is));
        names.push_back(name);
    }
    if (refused.empty()) return changed;
    throw UserError(ExitCode::usage, where, "this would not be the same run: {}", fmt::join(refused, "; "))
        .hint(fmt::format("the run's own settings (run.yaml), a new output_dir, or allow_changed_settings: [{}], to go "
                          "on with the new ones",
                          fmt::join(names, ", ")));
}

}  // namespace windlass
