#include "data/open_adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file_error.h"
#include "base/index.h"
#include "base/log.h"
#include "config/adapter_place.h"
#include "config/module_pattern.h"
#include "data/module_names.h"
#include "data/new_adapter.h"
#include "format/base_checksum.h"
#include "model/adapters/adapter.h"
#include "model/adapters/peft.h"
#include "model/adapters/tokens.h"
#include "model/adapters/whole.h"

namespace windlass {
namespace {

constexpr const char* kTargets = "lora_target_modules";
constexpr const char* kWhole = "modules_to_save";
constexpr const char* kTokenIds = "trainable_token_indices";

std::string module_of(const ModelSpec& model, int layer) {
    return module_name(model, layer_name(model, layer));
}

bool is_all(std::string_view target) {
    return target == "all-linear" || target == "all";
}

// Ends of the names of these layers, which may have this kind: q_proj, k_proj, ...
std::string kinds_of_layers(const ModelSpec& model, const AdapterKind& kind, const std::vector<int>& layers) {
    std::set<std::string> kinds;
    for (const int layer : layers) {
        const std::string module = module_of(model, layer);
        kinds.insert(module.substr(module.rfind('.') + 1));
    }
    const std::string others = kind.write_narrow == nullptr
                                   ? fmt::format("; tables and the head carry no adapter \"{}\"", kind.name)
                                   : "; tables of positions carry none";
    return fmt::format("{}, or all-linear{}", fmt::join(kinds, ", "), others);
}

std::vector<int> named_layers(const ModelSpec& model, const std::vector<int>& layers, const std::string& target) {
    std::vector<int> found;
    if (is_module_name(target)) {
        std::ranges::copy_if(layers, std::back_inserter(found),
                             [&](int weight) { return is_named_by(module_of(model, weight), {target}); });
        return found;
    }
    const WholeNames names(target, ExitCode::usage, kTargets);
    std::ranges::copy_if(layers, std::back_inserter(found),
                         [&](int weight) { return names.fit(module_of(model, weight)); });
    return found;
}

// The layers that lora_target_modules names.
std::vector<int> target_layers(const ModelSpec& model, const AdapterKind& kind,
                               const std::vector<std::string>& targets) {
    const std::vector<int> layers = adaptable_layers(model, kind);
    std::set<int> chosen;
    for (const std::string& target : targets) {
        const std::vector<int> found =
            is_all(target) ? linear_layers_of_layers(model) : named_layers(model, layers, target);
        if (found.empty())
            throw UserError(ExitCode::usage, kTargets, "\"{}\" is the name of no {} of this model", target,
                            kind.write_narrow == nullptr ? "linear layer" : "layer")
                .hint(kinds_of_layers(model, kind, layers));
        chosen.insert(found.begin(), found.end());
    }
    if (chosen.empty())
        throw UserError(ExitCode::usage, kTargets, "names no layer").hint(kinds_of_layers(model, kind, layers));
    return {chosen.begin(), chosen.end()};
}

// A layer with an adapter is frozen.
void require_frozen(const ModelSpec& model, const std::vector<int>& layers, const std::vector<std::string>& whole,
                    ExitCode code, const std::string& where) {
    for (const int layer : layers) {
        if (std::ranges::find(whole, layer_name(model, layer) + ".weight") == whole.end()) continue;
        throw UserError(code, where, "{} has an adapter, and \"{}\" trains it whole", module_of(model, layer), kWhole)
            .hint(code == ExitCode::usage
                      ? "one of the two: lora_target_modules without it, or modules_to_save without it"
                      : "an adapter that peft has saved");
    }
}

// Magnitudes are those of linear layers.
void require_linear(const ModelSpec& model, const std::vector<int>& layers, const AdapterSettings& settings) {
    for (const int layer : layers) {
        if (may_adapt(model, layer, settings)) continue;
        throw UserError(ExitCode::usage, kTargets,
                        "{} has DoRA, which is implemented for linear layers other than the head",
                        module_of(model, layer))
            .hint("lora_target_modules without it, or use_dora: false");
    }
}

// Of a tied table each end has a pair of its own.
void require_own_pairs(const ModelSpec& model, const std::vector<int>& layers, const AdapterSettings& settings,
                       const std::string& where) {
    for (const int layer : settings.keeps_ties ? layers : std::vector<int>()) {
        if (model.params[at(weight_of_layer(model, layer))].tied_name.empty()) continue;
        throw UserError(
            ExitCode::model, where,
            "\"ensure_weight_tying\" is true, and {} has an adapter: one pair for both ends of a tied table is "
            "not implemented",
            module_of(model, layer))
            .hint("to merge it with peft, and to give the merged model");
    }
}

// Tokens train over a table that is frozen and has no other adapter.
void require_own_table(const ModelSpec& model, const std::vector<int>& layers, const AdapterSettings& settings,
                       ExitCode code, const std::string& where) {
    for (const auto& [layer, tokens] : settings.tokens) {
        const int table = find_param(model, layer + ".weight");
        const bool is_adapted =
            std::ranges::any_of(layers, [&](int each) { return weight_of_layer(model, each) == table; });
        const bool is_whole = std::ranges::any_of(
            settings.whole, [&](const std::string& name) { return find_param(model, name) == table; });
        if (!is_adapted && !is_whole) continue;
        throw UserError(code, where, "{} has tokens that train alone, and {}", module_name(model, layer),
                        is_whole ? fmt::format("\"{}\" trains all of it", kWhole) : "an adapter")
            .hint(code == ExitCode::usage
                      ? fmt::format("one of the two: without {}, or the module left out of the other", kTokenIds)
                      : "an adapter with one of the two");
    }
}

// What trainable_token_indices says, by module.
std::vector<ModuleTokens> said_tokens(const Config& config) {
    std::vector<ModuleTokens> said;
    for (const std::string& text : config.trainable_token_indices) {
        ModuleToken token;
        read_module_token(text, token);
        auto found = std::ranges::find(said, token.module, &ModuleTokens::module);
        if (found == said.end()) found = said.insert(said.end(), {token.module, {}});
        found->tokens.push_back(token.token);
    }
    return said;
}

// peft's files of such an adapter alone have one list.
void require_one_list(const AdapterSettings& settings) {
    if (!find_adapter(settings.kind).is_of_tokens || settings.tokens.size() < 2) return;
    if (settings.tokens.begin()->second == settings.tokens.rbegin()->second) return;
    throw UserError(ExitCode::usage, kTokenIds, "adapter {} has the same tokens in each table", settings.kind)
        .hint("the same ids for both, or adapter: lora, which may have others for each");
}

// The parameters of modules that modules_to_save names.
std::vector<std::string> whole_params(const ModelSpec& model, const std::vector<std::string>& modules) {
    for (const std::string& module : modules) {
        if (!module.empty() && !params_of_modules(model, std::span(&module, 1)).empty()) continue;
        throw UserError(ExitCode::usage, kWhole, "\"{}\" is the name of no module of this model", module)
            .hint("embed_tokens, lm_head, norm, or other ends of names of modules");
    }
    return params_of_modules(model, modules);
}

void note_copies(const ModelSpec& model) {
    for (const ParamSpec& param : model.params) {
        if (param.added && !param.added->copy_of.empty())
            log_info(
                "note: {} trains apart from the other end of the base's tied table, as in peft: a merged folder has "
                "two tables",
                param.added->layer);
    }
}

// Tensors are what an adapter is; target_modules must have named their modules when it was made.
void require_named(const AdapterFolder& folder, const PeftConfig& peft, const ModelSpec& model,
                   const std::vector<int>& layers) {
    if (peft.targets.empty() || (peft.is_expression && is_all(peft.targets[0]))) return;
    std::optional<WholeNames> names;
    if (peft.is_expression) names.emplace(peft.targets[0], ExitCode::model, folder.config_path());
    for (const int weight : layers) {
        const std::string module = module_of(model, weight);
        if (names ? names->fit(module) : is_named_by(module, peft.targets)) continue;
        throw UserError(ExitCode::model, folder.config_path(),
                        "\"target_modules\" does not name {}, but {} has its tensors", module, kAdapterWeightsName)
            .hint("the two files of one adapter");
    }
}

// Of an adapter that says which base it belongs to, where the base's weights are there.
void require_base(const AdapterFolder& folder, const ModelFolder& base) {
    const std::string wanted = folder.base_checksum();
    if (wanted.empty() || base.tensors().empty()) return;
    const std::string found = base_checksum(base);
    if (found == wanted) return;
    throw UserError(ExitCode::model, folder.weights_path(), "was trained over a base of checksum {}, {} has {}", wanted,
                    base.path(), found)
        .hint("the base that it was trained over");
}

}  // namespace

std::optional<AdapterFolder> put_adapter(FileSystem& files, const Config& config, const ModelFolder& base,
                                         ModelSpec& model) {
    if (config.adapter.empty()) return std::nullopt;
    if (is_adapter_name(config.adapter)) {
        const AdapterKind& kind = find_adapter(config.adapter);
        const std::vector<int> layers =
            kind.is_of_tokens ? std::vector<int>() : target_layers(model, kind, config.lora_target_modules);
        AdapterSettings settings = new_adapter(config, model, layers);
        settings.tokens = tokens_by_layer(model, said_tokens(config), ExitCode::usage, kTokenIds);
        require_one_list(settings);
        settings.whole = whole_params(model, config.modules_to_save);
        require_frozen(model, layers, settings.whole, ExitCode::usage, kTargets);
        require_linear(model, layers, settings);
        require_own_table(model, layers, settings, ExitCode::usage, kTokenIds);
        model = with_adapter(std::move(model), settings, layers);
        note_copies(model);
        return std::nullopt;
    }
    AdapterFolder folder = AdapterFolder::open(files, adapter_folder_of(files, config.adapter));
    PeftConfig peft = read_peft_config(folder);
    const FitsModule fits = fits_module(ExitCode::model, folder.config_path());
    read_peft_tokens(folder, model, fits, peft);
    read_by_module(folder, model, fits, peft.settings);
    read_peft_whole(folder, model, peft);
    const std::vector<int> layers = peft_layers(folder, peft.settings, model);
    require_own_pairs(model, layers, peft.settings, folder.config_path());
    require_named(folder, peft, model, layers);
    require_frozen(model, layers, peft.settings.whole, ExitCode::model, folder.config_path());
    require_own_table(model, layers, peft.settings, ExitCode::model, folder.config_path());
    check_peft_tables(folder, peft.settings, base, model);
    check_peft_numbers(folder);
    require_base(folder, base);
    model = with_adapter(std::move(model), peft.settings, layers);
    return folder;
}

}  // namespace windlass
