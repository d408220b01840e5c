#include "state/trajectory_settings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "config/param_group_text.h"

namespace windlass {
namespace {

constexpr const char* kWeightDecay = "weight_decay";
constexpr const char* kScalarClip = "scalar_clip";
constexpr const char* kEstimator = "zo_estimator";
constexpr const char* kLayerDrop = "layer_drop";
constexpr const char* kExactInplace = "exact_inplace";
constexpr const char* kSparseShare = "sparse_share";
constexpr const char* kLimits = "magnitude_limits";
constexpr const char* kGroups = "param_groups";
constexpr const char* kStorage = "weight_storage";
constexpr const char* kScales = "scale_exponents";
constexpr const char* kFolding = "fold_updates";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kWindow = "replay_window";
constexpr const char* kBeta1 = "beta1";
constexpr const char* kBeta2 = "beta2";
constexpr const char* kEpsilon = "epsilon";
constexpr std::array<std::string_view, 16> kKnown = {
    kWeightDecay, kScalarClip, kEstimator, kLayerDrop, kExactInplace, kSparseShare, kLimits, kGroups,
    kStorage,     kScales,     kFolding,   kOptimizer, kWindow,       kBeta1,       kBeta2,  kEpsilon};
constexpr double kScaleExponentMost = 1024;  // what fits is known where the model is

Json parse(const TrajectoryHeader& header, std::string_view where) {
    Json json = parse_json(header.settings, where, ExitCode::storage);
    if (!json.is_object() && !json.is_null())
        throw UserError(ExitCode::storage, where, "the log's settings are no JSON object");
    if (json.is_null()) return Json::object();
    // What is not known may be what updates were made by: weights that were made again without it would be others.
    for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(kKnown, key) == kKnown.end())
            throw UserError(ExitCode::storage, where, "its settings have a \"{}\", which this version does not know",
                            key)
                .hint("the version of Windlass that wrote it, or a newer one");
    }
    return json;
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

Json rule_json(const MomentRule& rule) {
    Json json = {{kOptimizer, moments_name(rule.moments)}, {kWindow, rule.window}, {kBeta1, rule.beta1}};
    if (rule.moments == NoiseMoments::both) json.update({{kBeta2, rule.beta2}, {kEpsilon, rule.epsilon}});
    return json;
}

bool is_sane(const MomentRule& rule) {
    const auto decays = [](double beta) { return beta >= 0 && beta < 1; };
    const bool both = rule.moments == NoiseMoments::both;
    return rule.window >= 1 && rule.window <= kReplayWindowMax && decays(rule.beta1) && decays(rule.beta2) &&
           (!both || (rule.epsilon > 0 && std::isfinite(rule.epsilon)));
}

// By parameter; null: none.
Json limits_of(const TrainedModel& model) {
    Json limits = Json::array();
    for (const ParamPerturb& param : model.perturb) {
        const bool has_limit = std::isfinite(param.magnitude_limit);
        limits.push_back(has_limit ? Json(double{param.magnitude_limit}) : Json());
    }
    return limits;
}

}  // namespace

std::string trajectory_settings(const Recipe& recipe, const MethodOptions& options, const TrainedModel& model) {
    Json settings = {{kWeightDecay, options.weight_decay}, {kScalarClip, options.scalar_clip}};
    settings[kLayerDrop] = options.layer_drop;
    if (!model.groups.empty()) settings[kGroups] = param_group_texts(model);
    if (const MomentRule rule = moment_rule(options); rule.moments != NoiseMoments::none)
        settings.update(rule_json(rule));
    if (recipe.runs(SweepKind::forward)) {
        settings[kEstimator] = std::string(estimator_name(options.estimator));
        if (options.sparse_share < 1) {
            settings[kSparseShare] = options.sparse_share;
            settings[kLimits] = limits_of(model);
        }
    }
    if (is_kept_in_8_bits(model)) {
        settings[kStorage] = "f8";
        settings[kScales] = scale_exponents(model);
    }
    if (is_kept_in_4_bits(model)) settings[kStorage] = "nf4";
    if (recipe.folding != Folding::each_step) settings[kFolding] = folding_name(recipe.folding);
    return settings.dump();
}

MomentRule rule_of(const TrajectoryHeader& header, std::string_view where) {
    const Json settings = parse(header, where);
    try {
        const std::string name = settings.value(kOptimizer, "sgd");
        const std::optional<NoiseMoments> moments = moments_from_name(name);
        if (!moments)
            throw UserError(ExitCode::storage, where, "its optimizer is \"{}\", which this version does not know",
                            name);
        MomentRule rule{.moments = *moments};
        if (rule.moments == NoiseMoments::none) return rule;
        const int64_t window = integer_of(settings.at(kWindow)).value_or(0);
        rule.window = window > INT_MAX ? 0 : static_cast<int>(window);
        rule.beta1 = settings.at(kBeta1).get<double>();
        if (rule.moments == NoiseMoments::both) {
            rule.beta2 = settings.at(kBeta2).get<double>();
            rule.epsilon = settings.at(kEpsilon).get<double>();
        }
        if (is_sane(rule)) return rule;
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "its settings do not say how steps follow steps: {}", error.what());
    }
    throw UserError(ExitCode::storage, where, "its settings hold numbers that no optimizer has: {}", header.settings);
}

void read_trajectory_settings(const TrajectoryHeader& header, std::string_view where, PerturbStep& noise) {
    const Json settings = parse(header, where);
    noise.rule = rule_of(header, where);
    noise.layer_drop = number(settings, where, kLayerDrop, 1);
    if (flag(settings, where, kExactInplace))
        throw UserError(
            ExitCode::storage, where,
            "its updates were rounded as MeZO's own program rounds them ({}), which this version does not do",
            kExactInplace)
            .hint("the version of Windlass that wrote it");
}

void read_magnitude_limits(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto limits = settings.find(kLimits);
    if (limits == settings.end()) return;
    if (!limits->is_array() || limits->size() != model.params.size())
        throw wrong(where, kLimits, fmt::format("a list of {} numbers", model.params.size()));
    for (size_t param = 0; param < model.params.size(); ++param) {
        const Json& limit = (*limits)[param];
        if (limit.is_null()) continue;
        if (!limit.is_number() || !(limit.get<double>() >= 0)) throw wrong(where, kLimits, "numbers of 0 and more");
        model.perturb[param].magnitude_limit = static_cast<float>(limit.get<double>());
    }
}

void read_param_groups(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto texts = settings.find(kGroups);
    if (texts == settings.end()) return;
    if (!texts->is_array() || texts->size() > kParamGroupsMax)
        throw wrong(where, kGroups, fmt::format("a list of at most {} groups", kParamGroupsMax));
    std::vector<ParamGroup> groups;
    for (const Json& text : *texts) {
        if (!text.is_string()) throw wrong(where, kGroups, "texts");
        const std::string problem = read_param_group(text.get<std::string>(), groups.emplace_back());
        if (!problem.empty()) throw UserError(ExitCode::storage, where, "its {} cannot be read: {}", kGroups, problem);
    }
    apply_param_groups(groups, where, model);
}

void read_weight_storage(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto storage = settings.find(kStorage), scales = settings.find(kScales);
    if (storage == settings.end() || *storage == "as_file") return;
    if (*storage == "nf4" && scales == settings.end()) return keep_in_4_bits(model);
    if (*storage != "f8") throw wrong(where, kStorage, "one that this version knows");
    const auto is_scale = [](const Json& each) {
        return each.is_number_integer() && std::abs(each.get<double>()) <= kScaleExponentMost;
    };
    if (scales == settings.end() || !scales->is_array() || !std::ranges::all_of(*scales, is_scale))
        throw wrong(where, kScales, "a list of small integers");
    keep_in_8_bits(model);
    set_scale_exponents(scales->get<std::vector<int>>(), where, model);
}

void read_folding(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto name = settings.find(kFolding);
    if (name == settings.end()) return;
    const auto folding = name->is_string() ? folding_from_name(name->get<std::string>()) : std::nullopt;
    const TrajectoryNoise& noise = header.noise;
    const bool is_low_rank = noise.rank > 0, windows = noise.window >= 2 && noise.window <= kFoldWindowMax;
    if (!folding || (*folding != Folding::each_step && !is_low_rank) ||
        (*folding == Folding::each_window && !windows) ||
        (*folding == Folding::never && (noise.window != 0 || !noise.keeps_left)))
        throw wrong(where, kFolding, "one that directions of this kind have");
    set_folding(model, *folding);
}

std::vector<std::string> settings_differences(const TrajectoryHeader& was, const TrajectoryHeader& is) {
    const Json before = parse(was, "the log"), now = parse(is, "this run");
    std::vector<std::string> differences;
    const auto in = [](const Json& settings, const char* key, const Json& missing) {
        return settings.contains(key) ? settings[key] : missing;
    };
    const auto compare = [&](const char* key, const Json& missing) {
        const Json first = in(before, key, missing), second = in(now, key, missing);
        if (first != second) differences.push_back(fmt::format("{} was {}, is {}", key, first.dump(), second.dump()));
    };
    compare(kEstimator, std::string(estimator_name(ZoEstimator::two_sided)));
    compare(kLayerDrop, 0.0);
    compare(kSparseShare, 1.0);
    compare(kGroups, Json::array());
    compare(kStorage, "as_file");
    compare(kFolding, folding_name(Folding::each_step));
    const MomentRule rule_before = rule_of(was, "the log"), rule_now = rule_of(is, "this run");
    const auto compare_rule = [&](const char* key, const auto& first, const auto& second) {
        if (first != second) differences.push_back(fmt::format("{} was {}, is {}", key, first, second));
    };
    compare_rule("zo_optimizer", moments_name(rule_before.moments), moments_name(rule_now.moments));
    compare_rule("replay_window", rule_before.window, rule_now.window);
    compare_rule("adam_beta1", rule_before.beta1, rule_now.beta1);
    compare_rule("adam_beta2", rule_before.beta2, rule_now.beta2);
    compare_rule("adam_epsilon", rule_before.epsilon, rule_now.epsilon);
    if (differences.empty() && in(before, kLimits, Json()) != in(now, kLimits, Json()))
        differences.emplace_back("sparse_share was of the weights of another base");
    if (differences.empty() && in(before, kScales, Json()) != in(now, kScales, Json()))
        differences.emplace_back("scales of weights in 8 bits were of another base");
    return differences;
}

}  // namespace windlass
