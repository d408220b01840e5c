#include "state/identity.h"

#include <algorithm>
#include <climits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "config/choices.h"
#include "method/recipe.h"
#include "op/batch.h"

namespace windlass {
namespace {

const std::string kAsFile = "as_file", kF8 = "f8", kNf4 = "nf4", kSplit = "split", kEachStep = "each_step";
using Texts = std::map<std::string, std::string>;

// What is no integer, or one beyond int64_t, throws std::bad_optional_access: get() would convert it to any number.
int64_t integer(const Json& json, const char* key) {
    return integer_of(json.at(key)).value();
}

int small(const Json& value) {
    const int64_t integer = integer_of(value).value();
    if (integer < INT_MIN || integer > INT_MAX) throw std::bad_optional_access();
    return static_cast<int>(integer);
}

Numerics read_numerics(const Json& json) {
    Numerics n;
    n.compute = dtype_from_name(json.at("compute").get<std::string>()).value();
    n.micro_batch_size = integer(json, "micro_rows");
    n.micro_batches = integer(json, "micro_count");
    for (const Json& each : json.at("row_lengths")) n.sequence_lengths.push_back(integer_of(each).value());
    n.kernel_path = json.at("kernel_path").get<std::string>();
    n.state_format = state_format_from_name(json.at("state_format").get<std::string>()).value();
    n.gradient_format = gradient_format_from_name(json.at("gradient_format").get<std::string>()).value();
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

bool is_sane(const Identity& s) {
    const Numerics& n = s.numerics;
    return n.micro_batch_size > 0 && n.micro_batches > 0 && n.micro_batch_size <= 65536 &&
           n.micro_batches <= (int64_t{1} << 20) && !n.sequence_lengths.empty() && n.sequence_lengths.size() <= 4 &&
           n.sequence_lengths.front() > 0 && n.sequence_lengths.back() <= (int64_t{1} << 20) &&
           std::ranges::is_sorted(n.sequence_lengths) && s.directions >= 1 && s.directions <= kDirectionsMax;
}

bool is_sane_in_logs(const Identity& s) {
    return merge_from_name(s.merge_updates) &&
           (s.weight_storage == kF8 ||
            (s.scale_exponents.empty() &&
             (s.weight_storage == kAsFile || s.weight_storage == kNf4 || s.weight_storage == kSplit)));
}

void add_text(Json& json, const char* key, const std::string& text, const std::string& missing = "") {
    if (text != missing) json[key] = text;
}

bool is_of_probes(const Identity& identity) {
    return !identity.method.empty() && make_recipe(identity.method, {}).probes();
}

class Comparison {
  public:
    template <typename T>
    void of(std::string_view name, const T& was, const T& is, OnResume rule = OnResume::refused) {
        if (was != is) found.push_back({std::string(name), fmt::format("{}", was), fmt::format("{}", is), rule});
    }
    // What a run may resume with if `allowed_as` is allowed.
    void by_name(std::string_view name, const std::string& was, const std::string& is, std::string_view allowed_as) {
        if (was == is) return;
        found.push_back({std::string(name), was, is, OnResume::by_name, std::string(allowed_as)});
    }
    std::vector<Difference> found;
};

void compare_numerics(const Identity& was, const Identity& is, Comparison& compare) {
    const Numerics &a = was.numerics, &b = is.numerics;
    compare.of("dtype", dtype_name(a.compute), dtype_name(b.compute));
    compare.of("per_device_train_batch_size", a.micro_batch_size, b.micro_batch_size);
    compare.of("gradient_accumulation_steps", a.micro_batches, b.micro_batches);
    compare.of("row lengths", fmt::format("{}", fmt::join(a.sequence_lengths, ", ")),
               fmt::format("{}", fmt::join(b.sequence_lengths, ", ")));
    compare.by_name("kernel path (WINDLASS_CPU)", a.kernel_path, b.kernel_path, kKernelsSetting);
    compare.of("state_format", state_format_name(a.state_format), state_format_name(b.state_format));
    compare.of("gradient_format", gradient_format_name(a.gradient_format), gradient_format_name(b.gradient_format));
    const Coefficients &from = was.coefficients, &to = is.coefficients;
    compare.by_name("instruction set of matrix products", from.products, to.products, kKernelsSetting);
    if (!from.library.empty() && !to.library.empty())
        compare.by_name("library of matrix products", from.library, to.library, kKernelsSetting);
    compare.of("checksum of rope frequencies (config.json)", from.rope, to.rope);
    compare.of("checksum of the C library's pow, cos, exp and log", from.libm, to.libm);
}

std::string value_in(const Texts& texts, const std::string& key) {
    const auto found = texts.find(key);
    return found == texts.end() ? "absent" : found->second;
}

void compare_model_config(const Texts& was, const Texts& is, Comparison& compare) {
    if (was.empty() || is.empty()) return;
    Texts both = was;
    both.insert(is.begin(), is.end());
    for (const auto& [key, value] : both)
        compare.of(fmt::format("{} (config.json)", key), value_in(was, key), value_in(is, key));
}

void compare_settings(const Identity& was, const Identity& is, Comparison& compare) {
    const bool probes = is_of_probes(is);
    compare.of("directions", was.directions, is.directions);
    for (const auto& [name, now] : is.settings) {
        const auto before = was.settings.find(name);
        const ConfigKey* const key = find_config_key(name);
        const OnResume rule = key == nullptr ? OnResume::free : rule_of(*key, probes);
        if (before == was.settings.end() || rule == OnResume::free || rule == OnResume::resolved) continue;
        if (rule == OnResume::by_name)
            compare.by_name(name, before->second, now, name);
        else
            compare.of(name, before->second, now, rule);
    }
}

}  // namespace

Json numerics_json(const Numerics& n) {
    return {{"compute", dtype_name(n.compute)},
            {"micro_rows", n.micro_batch_size},
            {"micro_count", n.micro_batches},
            {"row_lengths", n.sequence_lengths},
            {"kernel_path", n.kernel_path},
            {"state_format", state_format_name(n.state_format)},
            {"gradient_format", gradient_format_name(n.gradient_format)}};
}

void write_logged_identity(const Identity& s, Json& json) {
    json["param_groups"] = s.param_groups;
    add_text(json, "weight_storage", s.weight_storage, kAsFile);
    add_text(json, "merge_updates", s.merge_updates, kEachStep);
    if (!s.scale_exponents.empty()) json["scale_exponents"] = s.scale_exponents;
    if (!s.settings.empty()) json["settings"] = s.settings;
}

Identity read_logged_identity(const Json& json) {
    Identity s{.param_groups = json.at("param_groups").get<std::vector<std::string>>(),
               .weight_storage = json.value("weight_storage", kAsFile),
               .merge_updates = json.value("merge_updates", kEachStep),
               .settings = json.value("settings", Texts())};
    for (const Json& each : json.value("scale_exponents", Json::array())) s.scale_exponents.push_back(small(each));
    if (!is_sane_in_logs(s)) throw std::bad_optional_access();
    return s;
}

void write_identity(const Identity& s, Json& json) {
    write_logged_identity(s, json);
    json.update({{"seed", s.seed},
                 {"method", s.method},
                 {"data", s.data_fingerprint},
                 {"model_config", s.model_config},
                 {"numerics", numerics_json(s.numerics)},
                 {"lr_schedule", schedule_json(s.schedule)}});
    add_text(json, "run_id", s.run_id);
    add_text(json, "part_id", s.part_id);
    add_text(json, "eval_data", s.eval_fingerprint);
    add_text(json, "base_checksum", s.base_checksum);
    add_text(json, "products", s.coefficients.products);
    add_text(json, "products_library", s.coefficients.library);
    add_text(json, "rope", s.coefficients.rope);
    add_text(json, "libm", s.coefficients.libm);
    if (s.directions != 1) json["directions"] = s.directions;
    if (!s.kernels_before.empty()) json["kernels_before"] = s.kernels_before;
}

Identity read_identity(const Json& json) {
    if (!json.at("seed").is_number_unsigned()) throw std::bad_optional_access();
    const auto text = [&](const char* key) { return json.value(key, std::string()); };
    Identity s = read_logged_identity(json);
    s.run_id = text("run_id");
    s.part_id = text("part_id");
    s.seed = json["seed"].get<uint64_t>();
    s.method = json.at("method").get<std::string>();
    s.data_fingerprint = json.at("data").get<std::string>();
    s.eval_fingerprint = text("eval_data");
    s.model_config = json.value("model_config", Texts());
    s.base_checksum = text("base_checksum");
    s.directions = json.contains("directions") ? small(json.at("directions")) : 1;
    s.coefficients = {text("products"), text("products_library"), text("rope"), text("libm")};
    s.numerics = read_numerics(json.at("numerics"));
    s.schedule = read_schedule(json.at("lr_schedule"));
    s.kernels_before = json.value("kernels_before", std::vector<std::string>());
    if (!is_sane(s)) throw std::bad_optional_access();
    return s;
}

std::string identity_text(const Identity& identity) {
    Json json = Json::object();
    write_identity(identity, json);
    return json.dump();
}

Identity parse_identity(std::string_view text, std::string_view where) {
    try {
        return read_identity(parse_json(text, where, ExitCode::storage));
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "not the identity of a run: {}", excerpt(error.what()));
    } catch (const std::bad_optional_access&) {
        throw UserError(ExitCode::storage, where, "not the identity of a run: it holds numbers that no run has");
    }
}

// A log's records say what each step decayed, and moments' numbers are in its header; nothing is clipped.
OnResume rule_of(const ConfigKey& key, bool probes) {
    if (key.resume != OnResume::by_name || !probes) return key.resume;
    if (key.name == "max_grad_norm") return OnResume::free;
    return key.name == "weight_decay" ? OnResume::warned : OnResume::refused;
}

Texts recorded_settings(const Config& config, bool probes) {
    Texts settings;
    for (const ConfigKey& key : config_keys()) {
        const OnResume rule = rule_of(key, probes);
        if (rule != OnResume::free && rule != OnResume::resolved)
            settings.emplace(key.name, config_value_text(key, config));
    }
    return settings;
}

std::string Difference::text() const {
    return fmt::format("{} was {}, is {}", name, was, is);
}

std::vector<Difference> differences(const Identity& was, const Identity& is) {
    Comparison compare;
    compare_numerics(was, is, compare);
    compare.of("seed", was.seed, is.seed);
    compare.of("method", was.method, is.method);
    const auto groups = [](const Identity& run) { return fmt::format("[{}]", fmt::join(run.param_groups, ", ")); };
    compare.of("param_groups", groups(was), groups(is));
    compare.of("weight_storage", was.weight_storage, is.weight_storage);
    compare.of("merge_updates", was.merge_updates, is.merge_updates);
    compare.of("training rows", was.data_fingerprint, is.data_fingerprint);
    if (!was.eval_fingerprint.empty() && !is.eval_fingerprint.empty())
        compare.by_name("evaluation rows", was.eval_fingerprint, is.eval_fingerprint, kEvalRowsSetting);
    compare_model_config(was.model_config, is.model_config, compare);
    if (!was.base_checksum.empty() && !is.base_checksum.empty())
        compare.of("checksum of the base's weights", was.base_checksum, is.base_checksum);
    compare_settings(was, is, compare);
    return std::move(compare.found);
}

std::vector<std::string> require_same_run(const Identity& was, const Identity& is, std::span<const std::string> allowed,
                                          std::string_view where) {
    std::vector<std::string> refused, followed, by_name;
    bool could_be_allowed = true;
    for (const Difference& each : differences(was, is)) {
        const bool is_by_name = each.rule == OnResume::by_name;
        if (is_by_name && std::ranges::find(by_name, each.allowed_as) == by_name.end())
            by_name.push_back(each.allowed_as);
        if (each.rule == OnResume::warned ||
            (is_by_name && std::ranges::find(allowed, each.allowed_as) != allowed.end())) {
            followed.push_back(each.text());
            continue;
        }
        refused.push_back(each.text());
        could_be_allowed = could_be_allowed && is_by_name;
    }
    if (refused.empty()) return followed;
    throw UserError(ExitCode::usage, where, "this would not be the same run: {}", fmt::join(refused, "; "))
        .hint(could_be_allowed ? fmt::format("the run's own settings (run.yaml), a new output_dir, or "
                                             "allow_changed_settings: [{}], to continue with the new ones",
                                             fmt::join(by_name, ", "))
                               : "the run's own settings (run.yaml), or a new output_dir");
}

void require_same_base(const Identity& was, const Identity& is, std::string_view folder) {
    if (was.base_checksum.empty() || is.base_checksum.empty() || was.base_checksum == is.base_checksum) return;
    throw UserError(ExitCode::model, folder,
                    "is not the base that this run began with: its weights have the checksum {}, expected {}",
                    is.base_checksum, was.base_checksum)
        .hint("the model folder that the run began with, as it was then; or a new output_dir");
}

std::vector<std::string> kernels_before(const Identity& was, const Identity& is, int64_t step) {
    std::vector<std::string> before = was.kernels_before;
    const Coefficients &from = was.coefficients, &to = is.coefficients;
    const bool is_same = was.numerics.kernel_path == is.numerics.kernel_path && from.products == to.products &&
                         from.library == to.library;
    if (is_same) return before;
    const std::string library = from.library.empty() ? "" : ", " + from.library;
    before.push_back(fmt::format("until step {}: {}, {}{}", step, was.numerics.kernel_path, from.products, library));
    return before;
}

void take_from_before(const Identity& was, int64_t step, Identity& is) {
    is.kernels_before = kernels_before(was, is, step);
    if (is.eval_fingerprint.empty()) is.eval_fingerprint = was.eval_fingerprint;
}

void keep_in_few_bits(const Identity& identity, std::string_view where, TrainedModel& model) {
    const KeptAs kept = kept_as(identity.weight_storage);
    if (kept == KeptAs::nf4) keep_in_4_bits(model);
    if (kept != KeptAs::f8) return;
    keep_in_8_bits(model);
    set_scale_exponents(identity.scale_exponents, where, model);
}

}  // namespace windlass
