#include "state/trajectory_settings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "config/param_group_text.h"
#include "model/adapters/adapter.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/tokens.h"

namespace windlass {
namespace {

constexpr const char* kWeightDecay = "weight_decay";
constexpr const char* kScalarClip = "scalar_clip";
constexpr const char* kEstimator = "zo_estimator";
constexpr const char* kLayerDrop = "layer_drop";
constexpr const char* kSparseShare = "sparse_share";
constexpr const char* kLimits = "magnitude_limits";
constexpr const char* kGroups = "param_groups";
constexpr const char* kStorage = "weight_storage";
constexpr const char* kScales = "scale_exponents";
constexpr const char* kFrozen = "frozen_storage";
constexpr const char* kMerge = "merge_updates";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kWindow = "replay_window";
constexpr const char* kBeta1 = "beta1";
constexpr const char* kBeta2 = "beta2";
constexpr const char* kEpsilon = "epsilon";
constexpr const char* kAdapter = "adapter";
constexpr const char* kOwnLayers = "own";  // of an adapter: layers that have a rank or scales of their own
constexpr const char* kWhole = "whole";    // the same: parameters that train whole, and whether tied tables stay tied
constexpr const char* kKeepsTies = "keeps_ties";
constexpr const char* kTrainedTokens = "tokens";
constexpr const char* kMagnitudes = "magnitudes";  // the same: it has trained norms
constexpr std::array<std::string_view, 17> kKnown = {
    kWeightDecay, kScalarClip, kEstimator, kLayerDrop, kSparseShare, kLimits, kGroups,  kStorage, kScales,
    kFrozen,      kMerge,      kOptimizer, kWindow,    kBeta1,       kBeta2,  kEpsilon, kAdapter};
constexpr int64_t kNoiseRevision = 1;  // of the bits in perturb/README.md

// The kinds that logs know, by their number there.
constexpr std::array kLoggedKinds = {NoiseKind::gaussian, NoiseKind::rademacher, NoiseKind::low_rank};

constexpr double kScaleExponentMost = 1024;  // what fits is known where the model is

Json parse(const TrajectoryHeader& header, std::string_view where) {
    Json json = parse_json(header.settings, where, ExitCode::storage);
    if (!json.is_object() && !json.is_null())
        throw UserError(ExitCode::storage, where, "the log's settings are not a JSON object");
    if (json.is_null()) return Json::object();
    // What is not known may be what updates were made by: weights that were rebuilt without it would be others.
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

Json rule_json(const MomentRule& rule) {
    Json json = {{kOptimizer, moments_name(rule.moments)}, {kWindow, rule.window}, {kBeta1, rule.beta1}};
    if (rule.moments == NoiseMoments::both) json.update({{kBeta2, rule.beta2}, {kEpsilon, rule.epsilon}});
    return json;
}

// What the steps of the log make of the steps before them.
void read_rule(const Json& settings, std::string_view where, MethodOptions& options) {
    const std::string name = settings.value(kOptimizer, "sgd");
    const std::optional<NoiseMoments> moments = moments_from_name(name);
    if (!moments)
        throw UserError(ExitCode::storage, where, "its optimizer is \"{}\", which this version does not know", name);
    options.moments = *moments;
    if (options.moments == NoiseMoments::none) return;
    const int64_t window = integer_of(settings.at(kWindow)).value_or(0);
    options.beta1 = settings.at(kBeta1).get<double>();
    if (options.moments == NoiseMoments::both) {
        options.beta2 = settings.at(kBeta2).get<double>();
        options.epsilon = settings.at(kEpsilon).get<double>();
    }
    const auto decays = [](double beta) { return beta >= 0 && beta < 1; };
    if (window < 1 || window > kReplayWindowMax || !decays(options.beta1) || !decays(options.beta2) ||
        !std::isfinite(options.epsilon))
        throw UserError(ExitCode::storage, where, "its settings hold numbers that no optimizer has: {}",
                        settings.dump());
    options.replay_window = static_cast<int>(window);
}

void read_directions(const TrajectoryHeader& header, std::string_view where, MethodOptions& options) {
    const TrajectoryNoise& noise = header.noise;
    if (noise.revision != kNoiseRevision)
        throw UserError(ExitCode::storage, where, "directions of revision {}, this version draws revision {}",
                        noise.revision, kNoiseRevision);
    if (noise.rank > kDirectionRankMax)
        throw UserError(ExitCode::storage, where, "directions of rank {}, at most {} are drawn", noise.rank,
                        kDirectionRankMax);
    if (header.directions > kDirectionsMax)
        throw UserError(ExitCode::storage, where, "{} directions a step, at most {} are taken", header.directions,
                        kDirectionsMax);
    options.zo_eps = header.eps;
    options.directions = static_cast<int>(header.directions);
    options.noise = kLoggedKinds[static_cast<size_t>(noise.kind)];
    if (options.noise != NoiseKind::low_rank) return;
    options.noise_rank = static_cast<int>(noise.rank);
    options.noise_window = noise.window;
    options.noise_keeps_left = noise.keeps_left;
}

// A name out of a list; `missing` where there is none.
template <typename Value>
Value named(const Json& settings, std::string_view where, const char* key, Value missing,
            std::optional<Value> (*from_name)(std::string_view)) {
    const auto name = settings.find(key);
    if (name == settings.end()) return missing;
    const auto value = name->is_string() ? from_name(name->get<std::string>()) : std::nullopt;
    if (!value) throw wrong(where, key, "one that this version knows");
    return *value;
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

Json adapter_json(const TrainedModel& model) {
    Json layers = Json::array();
    for (const int layer : adapted_layers(model)) {
        if (std::string name = layer_name(model, layer); !model.adapter->tokens.contains(name))
            layers.push_back(std::move(name));
    }
    Json json = {{"kind", model.adapter->kind},         {"rank", model.adapter->rank}, {"scale", model.adapter->scale},
                 {"nonzeros", model.adapter->nonzeros}, {"seed", model.adapter->seed}, {"layers", std::move(layers)}};
    for (const auto& [layer, own] : model.adapter->layers)
        json[kOwnLayers][layer] = {{"rank", own.rank}, {"scale", own.scale}, {"scales_input", own.scales_input}};
    if (!model.adapter->whole.empty())
        json[kWhole] = model.adapter->whole, json[kKeepsTies] = model.adapter->keeps_ties;
    if (model.adapter->has_magnitudes) json[kMagnitudes] = true;
    if (!model.adapter->tokens.empty()) json[kTrainedTokens] = model.adapter->tokens;
    return json;
}

}  // namespace

std::string trajectory_settings(const Recipe& recipe, const MethodOptions& options, const TrainedModel& model) {
    Json settings = {{kWeightDecay, options.weight_decay}, {kScalarClip, options.scalar_clip}};
    settings[kLayerDrop] = options.layer_drop;
    if (!model.groups.empty()) settings[kGroups] = param_group_texts(model);
    if (const MomentRule rule = moment_rule(options); rule.moments != NoiseMoments::none)
        settings.update(rule_json(rule));
    if (recipe.runs(PassKind::forward)) {
        settings[kEstimator] = std::string(estimator_name(options.estimator));
        if (options.sparse_share < 1) {
            settings[kSparseShare] = options.sparse_share;
            settings[kLimits] = limits_of(model);
        }
    }
    if (model.frozen_type && trained_count(model) < model.param_count())
        settings[kFrozen] = dtype_name(*model.frozen_type);
    if (is_kept_in_8_bits(model)) {
        settings[kStorage] = "f8";
        settings[kScales] = scale_exponents(model);
    }
    if (is_kept_in_4_bits(model)) settings[kStorage] = "nf4";
    if (recipe.merge != Merge::each_step) settings[kMerge] = merge_name(recipe.merge);
    if (model.adapter) settings[kAdapter] = adapter_json(model);
    return settings.dump();
}

TrajectoryNoise logged_noise(const Noise& noise) {
    const auto kind = std::ranges::find(kLoggedKinds, noise.kind);
    WINDLASS_CHECK(kind != kLoggedKinds.end(), "there is no log of this noise");
    return {.kind = static_cast<TrajectoryNoiseKind>(kind - kLoggedKinds.begin()),
            .revision = kNoiseRevision,
            .rank = noise.rank,
            .window = noise.window,
            .keeps_left = noise.keeps_left};
}

MethodOptions logged_options(const TrajectoryHeader& header, std::string_view where) {
    const Json settings = parse(header, where);
    if (!find_method(header.method).recipe({}).probes())
        throw UserError(ExitCode::storage, where, "steps of {} have no directions", header.method);
    MethodOptions options;
    read_directions(header, where, options);
    options.layer_drop = number(settings, where, kLayerDrop, 1);
    if (settings.contains(kSparseShare)) options.sparse_share = number(settings, where, kSparseShare, 1);
    options.estimator = named(settings, where, kEstimator, ZoEstimator::two_sided, estimator_from_name);
    options.merge = named(settings, where, kMerge, Merge::each_step, merge_from_name);
    try {
        read_rule(settings, where, options);
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "its settings do not say how steps follow steps: {}", error.what());
    }
    if (const auto found = problems(header.method, options); !found.empty())
        throw UserError(ExitCode::storage, where, "no run has its settings: {}", found.front().what);
    return options;
}

Identity logged_identity(const TrajectoryHeader& header, std::string_view where) {
    const MethodOptions options = logged_options(header, where);
    const Json settings = parse(header, where);
    const auto text = [](const auto& value) { return fmt::format("{}", value); };
    Identity identity{.seed = header.run_seed,
                      .method = header.method,
                      .merge_updates = std::string(merge_name(options.merge)),
                      .directions = options.directions,
                      .settings = {{"noise", text(noise_kind_name(options.noise))},
                                   {"noise_rank", text(options.noise_rank)},
                                   {"noise_window", text(options.noise_window)},
                                   {"noise_kept", options.noise_keeps_left ? "both" : "right"},
                                   {"zo_eps", text(options.zo_eps)},
                                   {"zo_estimator", text(estimator_name(options.estimator))},
                                   {"zo_optimizer", text(moments_name(options.moments))},
                                   {"replay_window", text(options.replay_window)},
                                   {"adam_beta1", text(options.beta1)},
                                   {"adam_beta2", text(options.beta2)},
                                   {"adam_epsilon", text(options.epsilon)},
                                   {"layer_drop", text(options.layer_drop)},
                                   {"sparse_share", text(options.sparse_share)}}};
    try {
        identity.param_groups = settings.value(kGroups, std::vector<std::string>());
        identity.weight_storage = settings.value(kStorage, "as_file");
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "its settings do not say which run it is of: {}", error.what());
    }
    return identity;
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

namespace {

bool has_params(const ModelSpec& model, const std::vector<std::string>& names) {
    return std::ranges::all_of(names, [&](const std::string& name) {
        return !name.empty() && std::ranges::any_of(model.params, [&](const ParamSpec& param) {
            return param.name == name || param.tied_name == name;
        });
    });
}

}  // namespace

ModelSpec with_logged_adapter(const TrajectoryHeader& header, std::string_view where, ModelSpec model) {
    const Json all = parse(header, where);
    const auto found = all.find(kAdapter);
    if (found == all.end()) return model;
    AdapterSettings settings;
    std::vector<std::string> layers;
    try {
        settings = {.kind = found->at("kind").get<std::string>(),
                    .rank = integer_of(found->at("rank")).value_or(-1),
                    .scale = found->at("scale").get<double>(),
                    .nonzeros = integer_of(found->value("nonzeros", Json(0))).value_or(-1),
                    .seed = found->value("seed", uint64_t{0}),
                    .has_magnitudes = found->value(kMagnitudes, false)};
        layers = found->at("layers").get<std::vector<std::string>>();
        settings.whole = found->value(kWhole, std::vector<std::string>());
        settings.keeps_ties = found->value(kKeepsTies, false);
        std::vector<ModuleTokens> tokens;
        const Json logged_tokens = found->value(kTrainedTokens, Json::object());
        for (const auto& [layer, ids] : logged_tokens.items())
            tokens.push_back({module_name(model, layer), ids.get<std::vector<int64_t>>()});
        settings.tokens = tokens_by_layer(model, tokens, ExitCode::model, std::string(where));
        const Json own_layers = found->value(kOwnLayers, Json::object());
        for (const auto& [layer, own] : own_layers.items())
            settings.layers[layer] = {.rank = integer_of(own.at("rank")).value_or(-1),
                                      .scale = own.at("scale").get<double>(),
                                      .scales_input = own.at("scales_input").get<bool>()};
    } catch (const nlohmann::json::exception& error) {
        throw wrong(where, kAdapter, fmt::format("an adapter: {}", error.what()));
    }
    const bool has_projectors = find_adapter(settings.kind).rank_is_capped;
    if (settings.nonzeros < (has_projectors ? 1 : 0) || settings.nonzeros > kProjectorNumbersMax ||
        (has_projectors && settings.rank < 1))
        throw wrong(where, kAdapter, "projectors that there are");
    if (settings.rank < 0 || settings.rank > kAdapterRankMax || !std::isfinite(settings.scale) ||
        (layers.empty() && settings.tokens.empty()))
        throw wrong(where, kAdapter, "an adapter that there is");
    for (const auto& [layer, own] : settings.layers)
        if (own.rank < 0 || own.rank > kAdapterRankMax || !std::isfinite(own.scale))
            throw wrong(where, kAdapter, "an adapter that there is");
    std::vector<int> adapted;
    for (const int layer : adaptable_layers(model, find_adapter(settings.kind))) {
        const bool is_named = std::ranges::find(layers, layer_name(model, layer)) != layers.end();
        if (is_named && may_adapt(model, layer, settings)) adapted.push_back(layer);
    }
    if (adapted.size() != layers.size() || !has_params(model, settings.whole))
        throw UserError(ExitCode::model, where, "its adapter is of parts that this model does not have")
            .hint("the model folder that this run started from");
    return with_adapter(std::move(model), settings, adapted);
}

void read_param_groups(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto texts = settings.find(kGroups);
    if (texts == settings.end()) return;
    const auto is_text = [](const Json& each) { return each.is_string(); };
    if (!texts->is_array() || !std::ranges::all_of(*texts, is_text)) throw wrong(where, kGroups, "a list of texts");
    apply_param_groups(param_groups_of(texts->get<std::vector<std::string>>(), where), where, model);
}

void read_weight_storage(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    const auto storage = settings.find(kStorage), scales = settings.find(kScales), frozen = settings.find(kFrozen);
    if (frozen != settings.end()) {
        const auto computed = frozen->is_string() ? dtype_from_name(frozen->get<std::string>()) : std::nullopt;
        if (computed != DType::bf16 && computed != DType::f32) throw wrong(where, kFrozen, "bf16 or f32");
        keep_frozen_as(model, *computed);
    }
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

void require_same_log(const TrajectoryHeader& was, const TrajectoryHeader& is, std::string_view where) {
    require_same_run(logged_identity(was, where), logged_identity(is, "this run"), {}, where);
    const Json before = parse(was, where), now = parse(is, "this run");
    const auto differs = [&](const char* key) { return before.value(key, Json()) != now.value(key, Json()); };
    const char* const what =
        was.base.table_sum != is.base.table_sum || was.base.elements != is.base.elements || was.storage != is.storage
            ? "the parameters are not those of"
        : differs(kLimits) ? "sparse_share was of the weights of another base than"
        : differs(kScales) ? "scales of weights in 8 bits were of another base than"
                           : nullptr;
    if (what == nullptr) return;
    throw UserError(ExitCode::usage, where, "this would not be the same run: {} {}", what, was.base.name)
        .hint("the model folder that this run started from, or a new output_dir");
}

}  // namespace windlass
