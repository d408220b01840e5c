#include "train/trajectory_settings.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace windlass {
namespace {

constexpr const char* kWeightDecay = "weight_decay";
constexpr const char* kScalarClip = "scalar_clip";
constexpr const char* kEstimator = "zo_estimator";
constexpr const char* kLayerDrop = "layer_drop";
constexpr const char* kExactInplace = "exact_inplace";

Json parse(const TrajectoryHeader& header, std::string_view where) {
    Json json = parse_json(header.settings, where, ExitCode::storage);
    if (!json.is_object() && !json.is_null())
        throw UserError(ExitCode::storage, where, "the log's settings are no JSON object");
    return json.is_null() ? Json::object() : json;
}

UserError wrong(std::string_view where, std::string_view key, std::string_view expected) {
    return {ExitCode::storage, where, "settings.{} of the log is not {}", key, expected};
}

// A number in [0, end).
double number(const Json& settings, std::string_view where, const char* key, double end) {
    const auto found = settings.find(key);
    if (found == settings.end()) return 0;
    if (!found->is_number()) throw wrong(where, key, "a number");
    const double value = found->get<double>();
    if (!std::isfinite(value) || value < 0 || value >= end) throw wrong(where, key, fmt::format("in [0, {})", end));
    return value;
}

bool flag(const Json& settings, std::string_view where, const char* key) {
    const auto found = settings.find(key);
    if (found == settings.end()) return false;
    if (!found->is_boolean()) throw wrong(where, key, "true or false");
    return found->get<bool>();
}

}  // namespace

std::string trajectory_settings(const Recipe& recipe, const MethodOptions& options) {
    Json settings = {{kWeightDecay, options.weight_decay}, {kScalarClip, options.scalar_clip}};
    settings[kLayerDrop] = options.layer_drop;
    if (recipe.runs(SweepKind::forward)) {
        settings[kEstimator] = std::string(estimator_name(options.estimator));
        settings[kExactInplace] = options.exact_inplace;
    }
    return settings.dump();
}

void read_trajectory_settings(const TrajectoryHeader& header, std::string_view where, NoiseUpdate& noise) {
    constexpr double kDecayMax = 1e6;
    const Json settings = parse(header, where);
    noise.layer_drop = number(settings, where, kLayerDrop, 1);
    if (!flag(settings, where, kExactInplace)) return;
    if (header.eps <= 0) throw UserError(ExitCode::storage, where, "MeZO's own walk over no distance");
    noise.exact_eps = header.eps;
    noise.weight_decay = number(settings, where, kWeightDecay, kDecayMax);
}

std::vector<std::string> settings_differences(const TrajectoryHeader& was, const TrajectoryHeader& is) {
    const Json before = parse(was, "the log"), now = parse(is, "this run");
    std::vector<std::string> differences;
    const auto compare = [&](const char* key, const Json& missing) {
        const Json first = before.contains(key) ? before[key] : missing, second = now.contains(key) ? now[key] : missing;
        if (first != second) differences.push_back(fmt::format("{} was {}, is {}", key, first.dump(), second.dump()));
    };
    compare(kEstimator, std::string(estimator_name(ZoEstimator::two_sided)));
    compare(kLayerDrop, 0.0);
    compare(kExactInplace, false);
    // Elsewhere each record says what its step decayed by.
    if (now.value(kExactInplace, false)) compare(kWeightDecay, 0.0);
    return differences;
}

}  // namespace windlass
