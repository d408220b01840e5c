#include "state/trajectory_settings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/printable.h"
#include "config/param_group_text.h"
#include "config/run_place.h"
#include "model/adapters/adapter.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/tokens.h"

namespace windlass {
namespace {

constexpr const char* kLimits = "magnitude_limits";
constexpr const char* kFrozen = "frozen_storage";
constexpr const char* kAdapter = "adapter";
constexpr const char* kOwnLayers = "own";  // of an adapter: layers that have a rank or scales of their own
constexpr const char* kWhole = "whole";    // the same: parameters that train whole, and whether tied tables stay tied
constexpr const char* kKeepsTies = "keeps_ties";
constexpr const char* kTrainedTokens = "tokens";
constexpr const char* kMagnitudes = "magnitudes";  // the same: it has trained norms
constexpr std::array<std::string_view, 9> kKnown = {"format",          "param_groups",  "weight_storage",
                                                    "scale_exponents", "merge_updates", "settings",
                                                    kLimits,           kFrozen,         kAdapter};
// Of Identity::settings: what scalars and updates depend on, besides what all logs say of directions.
constexpr std::array<std::string_view, 10> kLogged = {"adam_beta1",    "adam_beta2",   "adam_epsilon", "layer_drop",
                                                      "replay_window", "sparse_share", "scalar_clip",  "weight_decay",
                                                      "zo_estimator",  "zo_optimizer"};
constexpr int64_t kNoiseRevision = 1;  // of the bits in perturb/README.md

// The kinds that logs know, by their number there.
constexpr std::array kLoggedKinds = {NoiseKind::gaussian, NoiseKind::rademacher, NoiseKind::low_rank};

Json parse(const TrajectoryHeader& header, std::string_view where) {
    Json json = parse_json(header.settings, where, ExitCode::storage);
    if (!json.is_object()) throw UserError(ExitCode::storage, where, "the log's settings are not a JSON object");
    require_run_format(json.contains("format") ? integer_of(json["format"]) : std::nullopt, where);
    // What is not known may be what updates were made by: weights that were rebuilt without it would be others.
    for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(kKnown, key) == kKnown.end())
            throw UserError(ExitCode::storage, where, "its settings have a \"{}\", which this version does not know",
                            key)
                .hint("the version of Windlass that wrote it, or a newer one");
    }
    return json;
}

// What write_logged_identity wrote.
Identity read_identity_of(const TrajectoryHeader& header, std::string_view where) {
    try {
        return read_logged_identity(parse(header, where));
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "its settings do not say which run it is of: {}",
                        excerpt(error.what()));
    } catch (const std::bad_optional_access&) {
        throw UserError(ExitCode::storage, where, "its settings are those of no run");
    }
}

UserError wrong(std::string_view where, std::string_view key, std::string_view expected) {
    return {ExitCode::storage, where, "settings.{} of the log is not {}", key, expected};
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

std::string trajectory_settings(const Identity& identity, const TrainedModel& model) {
    Identity logged = identity;
    std::erase_if(logged.settings,
                  [](const auto& each) { return std::ranges::find(kLogged, each.first) == kLogged.end(); });
    Json settings = {{"format", kRunFormat}};
    write_logged_identity(logged, settings);
    const auto has_limit = [](const ParamPerturb& param) { return std::isfinite(param.magnitude_limit); };
    if (std::ranges::any_of(model.perturb, has_limit)) settings[kLimits] = limits_of(model);
    if (model.frozen_type && trained_count(model) < model.param_count())
        settings[kFrozen] = dtype_name(*model.frozen_type);
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
    if (!find_method(header.method).recipe({}).probes())
        throw UserError(ExitCode::storage, where, "steps of {} have no directions", header.method);
    const Identity identity = read_identity_of(header, where);
    MethodOptions options = method_options(config_of_texts(identity.settings, where));
    options.merge = merge_from_name(identity.merge_updates).value();
    read_directions(header, where, options);
    if (const auto found = problems(header.method, options); !found.empty())
        throw UserError(ExitCode::storage, where, "no run has its settings: {}", found.front().what);
    return options;
}

Identity logged_identity(const TrajectoryHeader& header, std::string_view where) {
    const MethodOptions options = logged_options(header, where);
    const auto text = [](const auto& value) { return fmt::format("{}", value); };
    Identity identity = read_identity_of(header, where);
    identity.seed = header.run_seed;
    identity.method = header.method;
    identity.directions = options.directions;
    for (const char* const key : {"scalar_clip", "weight_decay"}) identity.settings.erase(key);  // records say it
    identity.settings.merge(
        std::map<std::string, std::string>{{"noise", text(noise_kind_name(options.noise))},
                                           {"noise_rank", text(options.noise_rank)},
                                           {"noise_window", text(options.noise_window)},
                                           {"noise_kept", options.noise_keeps_left ? "both" : "right"},
                                           {"zo_eps", text(options.zo_eps)}});
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
        throw wrong(where, kAdapter, fmt::format("an adapter: {}", excerpt(error.what())));
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
    apply_param_groups(param_groups_of(read_identity_of(header, where).param_groups, where), where, model);
}

void read_weight_storage(const TrajectoryHeader& header, std::string_view where, TrainedModel& model) {
    const Json settings = parse(header, where);
    if (const auto frozen = settings.find(kFrozen); frozen != settings.end()) {
        const auto computed = frozen->is_string() ? dtype_from_name(frozen->get<std::string>()) : std::nullopt;
        if (computed != DType::bf16 && computed != DType::f32) throw wrong(where, kFrozen, "bf16 or f32");
        keep_frozen_as(model, *computed);
    }
    keep_in_few_bits(read_identity_of(header, where), where, model);
}

void require_same_log(const TrajectoryHeader& was, const TrajectoryHeader& is, std::string_view where) {
    require_same_run(logged_identity(was, where), logged_identity(is, "this run"), {}, where);
    const Json before = parse(was, where), now = parse(is, "this run");
    const auto differs = [&](const char* key) { return before.value(key, Json()) != now.value(key, Json()); };
    const char* const what =
        was.base.table_sum != is.base.table_sum || was.base.elements != is.base.elements || was.storage != is.storage
            ? "the parameters are not those of"
        : differs(kLimits)           ? "sparse_share was of the weights of another base than"
        : differs("scale_exponents") ? "scales of weights in 8 bits were of another base than"
                                     : nullptr;
    if (what == nullptr) return;
    throw UserError(ExitCode::usage, where, "this would not be the same run: {} {}", what, was.base.name)
        .hint("the model folder that this run started from, or a new output_dir");
}

}  // namespace windlass
