#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/peft.h"
#include "model/adapters/tokens.h"

namespace windlass {
namespace {

constexpr size_t kTargetsMax = 100'000;
constexpr size_t kTargetBytesMax = 4096;

// Fields that change no number here, whatever they say: names, places, and settings of training.
constexpr std::string_view kHarmless[] = {
    "peft_type",       "task_type",           "base_model_name_or_path", "revision",        "inference_mode",
    "auto_mapping",    "peft_version",        "target_modules",          "modules_to_save", "ensure_weight_tying",
    "exclude_modules", "layers_to_transform", "layers_pattern",          "lora_dropout",    "megatron_core",
    "megatron_config", "qalora_group_size",   "runtime_config",          "loftq_config",    "eva_config",
    "corda_config",    "lora_ga_config",      "ephemeral_gpu_offload"};

bool says_nothing(const Json& value) {
    return value.is_null() || value == false || (value.is_structured() && value.empty()) ||
           (value.is_string() && value.get<std::string>().empty());
}

bool knows(const AdapterKind& kind, std::string_view field) {
    if (std::ranges::find(kHarmless, field) != std::end(kHarmless)) return true;
    std::string_view fields = kind.fields;
    while (!fields.empty()) {
        const size_t end = std::min(fields.find(' '), fields.size());
        if (fields.substr(0, end) == field) return true;
        fields.remove_prefix(std::min(end + 1, fields.size()));
    }
    return false;
}

const AdapterKind& kind_of_type(const Json& config, const std::string& where) {
    const auto type = config.find("peft_type");
    if (type == config.end() || !type->is_string())
        throw UserError(ExitCode::model, where, "has no \"peft_type\"").hint("an adapter that peft has saved");
    std::string known;
    for (const AdapterKind* kind : all_adapters()) {
        if (kind->peft_type == type->get<std::string>()) return *kind;
        known += fmt::format("{}{}", known.empty() ? "" : ", ", kind->peft_type);
    }
    throw UserError(ExitCode::model, where, "\"peft_type\" is {}, implemented are {}", shown(*type), known)
        .hint("to merge it with peft, and to give the merged model");
}

void read_targets(const Json& config, const std::string& where, PeftConfig& read) {
    const auto found = config.find("target_modules");
    if (found == config.end() || found->is_null()) return;
    const auto add = [&](const Json& target) {
        if (!target.is_string() || target.get<std::string>().size() > kTargetBytesMax)
            throw UserError(ExitCode::model, where, "\"target_modules\" holds {}, expected names of modules",
                            target.type_name())
                .hint("an adapter that peft has saved");
        read.targets.push_back(target.get<std::string>());
    };
    read.is_expression = found->is_string();
    if (read.is_expression) return add(*found);
    if (!found->is_array() || found->size() > kTargetsMax)
        throw UserError(ExitCode::model, where, "\"target_modules\" is {}, expected a list of names or an expression",
                        found->type_name())
            .hint("an adapter that peft has saved");
    for (const Json& target : *found) add(target);
}

// peft takes one name, or a list of them.
std::vector<std::string> read_whole_modules(const Json& config, const std::string& where) {
    const Json found = config.value("modules_to_save", Json());
    if (says_nothing(found)) return {};
    const Json list = found.is_string() ? Json::array({found}) : found;
    const auto is_name = [](const Json& name) { return name.is_string() && !name.get<std::string>().empty(); };
    if (!list.is_array() || list.size() > kTargetsMax || !std::ranges::all_of(list, is_name))
        throw UserError(ExitCode::model, where, "\"modules_to_save\" is {}, expected a list of names", shown(found))
            .hint("an adapter that peft has saved");
    return list.get<std::vector<std::string>>();
}

// A field that says for some modules what `of` says for all.
struct ModuleField {
    const char* of;
    const Json* patterns;
};

void require_patterns(const Json& value, const char* name, const std::string& where) {
    const bool is_list = value.is_array() && std::ranges::all_of(value, &Json::is_string);
    if ((is_list || value.is_object() || value.is_string()) && value.size() <= kTargetsMax) return;
    throw UserError(ExitCode::model, where, "\"{}\" is {}, expected names of modules", name, shown(value))
        .hint("an adapter that peft has saved");
}

// What {"q_proj": 16} says of this module; of names alone, that it is one of them.
std::optional<Json> said_of(const Json& patterns, const std::string& module, const FitsModule& fits) {
    if (patterns.is_string())
        return fits(patterns.get<std::string>(), /*is_whole=*/true, module) ? std::optional(Json(true)) : std::nullopt;
    for (const auto& [key, value] : patterns.items()) {
        // Names in a list are ends of names, and no expressions.
        const bool is_said =
            patterns.is_array() ? module.ends_with(value.get<std::string>()) : fits(key, /*is_whole=*/false, module);
        if (is_said) return patterns.is_array() ? Json(true) : value;
    }
    return std::nullopt;
}

}  // namespace

PeftConfig read_peft_config(const AdapterFolder& folder) {
    const Json& config = folder.config();
    const std::string where = folder.config_path();
    const AdapterKind& kind = kind_of_type(config, where);
    for (const auto& [field, value] : config.items()) {
        if (says_nothing(value) || knows(kind, field)) continue;
        throw UserError(ExitCode::model, where, "\"{}\" is {}, which may change the mathematics and is not implemented",
                        field, shown(value))
            .hint("to merge it with peft, and to give the merged model");
    }
    PeftConfig read{.settings = kind.read_config(config, where)};
    if (const auto base = config.find("base_model_name_or_path"); base != config.end() && base->is_string())
        read.base = base->get<std::string>();
    read_targets(config, where, read);
    read.whole_modules = read_whole_modules(config, where);
    read.settings.keeps_ties = flag_field(config, "ensure_weight_tying", where);
    return read;
}

void read_by_module(const AdapterFolder& folder, const ModelSpec& model, const FitsModule& fits,
                    AdapterSettings& settings) {
    const std::string where = folder.config_path();
    const AdapterKind& kind = find_adapter(settings.kind);
    std::vector<ModuleField> fields;
    for (const auto& [name, of] : kind.by_module) {
        const auto found = folder.config().find(name);
        if (found == folder.config().end() || says_nothing(*found)) continue;
        require_patterns(*found, name, where);
        fields.push_back({of, &*found});
    }
    for (const int each : fields.empty() ? std::vector<int>() : adaptable_layers(model, kind)) {
        const std::string layer = layer_name(model, each);
        Json config = folder.config();
        bool is_own = false;
        for (const ModuleField& field : fields) {
            const std::optional<Json> said = said_of(*field.patterns, module_name(model, layer), fits);
            if (said) config[field.of] = *said;
            is_own |= said.has_value();
        }
        if (!is_own) continue;
        const AdapterSettings own = kind.read_config(config, where);
        settings.layers[layer] = {.rank = own.rank, .scale = own.scale, .scales_input = own.scales_input};
    }
}

namespace {

std::vector<int64_t> tokens_of(const Json& list, const char* name, const std::string& where) {
    if (!list.is_array())
        throw UserError(ExitCode::model, where, "\"{}\" is {}, expected a list of ids of tokens", name, shown(list))
            .hint("an adapter that peft has saved");
    if (list.size() > static_cast<size_t>(kAdapterRankMax))
        throw UserError(ExitCode::model, where, "\"{}\" has {} tokens, at most {} are read", name, list.size(),
                        kAdapterRankMax)
            .hint("to merge it with peft, and to give the merged model");
    for (const Json& each : list) {
        if (each.is_number_integer() && each >= 0 && each <= INT32_MAX) continue;
        throw UserError(ExitCode::model, where, "\"{}\" holds {}, expected ids of tokens", name, shown(each))
            .hint("an adapter that peft has saved");
    }
    return list.get<std::vector<int64_t>>();
}

// What target_modules says of an adapter of tokens alone.
std::vector<std::string> token_modules(const ModelSpec& base, const FitsModule& fits, const PeftConfig& peft) {
    if (peft.targets.empty()) return {""};
    if (!peft.is_expression) return peft.targets;
    std::vector<std::string> modules;
    for (const int layer : adaptable_layers(base, find_adapter(peft.settings.kind))) {
        std::string module = module_name(base, layer_name(base, layer));
        if (fits(peft.targets[0], /*is_whole=*/true, module)) modules.push_back(std::move(module));
    }
    return modules.empty() ? peft.targets : modules;
}

}  // namespace

void read_peft_tokens(const AdapterFolder& folder, const ModelSpec& base, const FitsModule& fits, PeftConfig& peft) {
    const bool is_alone = find_adapter(peft.settings.kind).is_of_tokens;
    const char* const name = is_alone ? "token_indices" : "trainable_token_indices";
    const std::string where = folder.config_path();
    const Json found = folder.config().value(name, Json());
    std::vector<ModuleTokens> said;
    if (is_alone) {
        for (const std::string& module : token_modules(base, fits, peft))
            said.push_back({module, tokens_of(found, name, where)});
    } else if (says_nothing(found)) {
        return;
    } else if (found.is_object()) {
        for (const auto& [module, list] : found.items()) said.push_back({module, tokens_of(list, name, where)});
    } else {
        said.push_back({"", tokens_of(found, name, where)});
    }
    peft.settings.tokens = tokens_by_layer(base, said, ExitCode::model, where);
}

bool is_named_by(std::string_view module, const std::vector<std::string>& targets) {
    return std::ranges::any_of(targets, [&](const std::string& target) {
        const bool ends = module.size() > target.size() && module.ends_with(target) &&
                          module[module.size() - target.size() - 1] == '.';
        return module == target || ends;
    });
}

}  // namespace windlass
