#include "data/open_adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/file_error.h"
#include "base/index.h"
#include "config/adapter_place.h"
#include "data/new_adapter.h"
#include "format/base_checksum.h"
#include "model/adapters/adapter.h"
#include "model/adapters/peft.h"
#include "text/pattern.h"

namespace windlass {
namespace {

constexpr const char* kTargets = "lora_target_modules";
constexpr size_t kShownMax = 200;  // of an expression
// An expression for whole names of modules, as Python's re.fullmatch takes it: with where it was written, and what
// kind of mistake a wrong one is.
class WholeNames {
  public:
    // before: an expression for what may be in front of the text's part of a name.
    WholeNames(std::string text, ExitCode code, std::string where, std::string_view before = "")
        : text_(std::move(text)), code_(code), where_(std::move(where)) {
        // By itself first: what closes the group that is put around it would be an expression, but another one.
        named([&] { Pattern::regex(text_, where_); });
        named([&] { whole_ = Pattern::regex(fmt::format("\\A{}(?:{})\\z", before, text_), where_); });
    }
    bool fit(const std::string& module) const {
        bool fits = false;
        named([&] { fits = !whole_.find_all(module).empty(); });
        return fits;
    }

  private:
    // Complaints of expressions are made for tokenizers': what remains is the reason, after the last colon.
    template <typename Call>
    void named(Call call) const {
        try {
            call();
        } catch (const UserError& error) {
            const std::string_view what = error.what();
            const std::string_view reason = what.substr(std::min(what.rfind(": "), what.size() - 2) + 2);
            throw UserError(code_, where_, "\"{}\" is not a regular expression for names of modules: {}",
                            text_.substr(0, kShownMax), reason.substr(0, kShownMax))
                .hint("names of modules, such as q_proj");
        }
    }

    std::string text_;
    ExitCode code_;
    std::string where_;
    Pattern whole_ = Pattern::literal("");
};

std::string module_of(const ModelSpec& model, int weight) {
    return module_name(model, layer_of(model.params[at(weight)]));
}

bool is_name(std::string_view target) {
    return std::ranges::all_of(
        target, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-'; });
}

bool is_all(std::string_view target) {
    return target == "all-linear" || target == "all";
}

// Ends of the names of all linear layers: q_proj, k_proj, ...
std::string kinds_of_layers(const ModelSpec& model, const std::vector<int>& layers) {
    std::set<std::string> kinds;
    for (const int weight : layers) {
        const std::string module = module_of(model, weight);
        kinds.insert(module.substr(module.rfind('.') + 1));
    }
    return fmt::format("{}, or all-linear; tables and the head carry none", fmt::join(kinds, ", "));
}

std::vector<int> named_layers(const ModelSpec& model, const std::vector<int>& layers, const std::string& target) {
    std::vector<int> found;
    if (is_name(target)) {
        std::ranges::copy_if(layers, std::back_inserter(found),
                             [&](int weight) { return is_named_by(module_of(model, weight), {target}); });
        return found;
    }
    const WholeNames names(target, ExitCode::usage, kTargets);
    std::ranges::copy_if(layers, std::back_inserter(found),
                         [&](int weight) { return names.fit(module_of(model, weight)); });
    return found;
}

// The linear layers that lora_target_modules names.
std::vector<int> target_layers(const ModelSpec& model, const std::vector<std::string>& targets) {
    const std::vector<int> layers = linear_layers(model);
    std::set<int> chosen;
    for (const std::string& target : targets) {
        const std::vector<int> found =
            is_all(target) ? linear_layers_of_layers(model) : named_layers(model, layers, target);
        if (found.empty())
            throw UserError(ExitCode::usage, kTargets, "\"{}\" is the name of no linear layer of this model", target)
                .hint(kinds_of_layers(model, layers));
        chosen.insert(found.begin(), found.end());
    }
    if (chosen.empty())
        throw UserError(ExitCode::usage, kTargets, "names no linear layer").hint(kinds_of_layers(model, layers));
    return {chosen.begin(), chosen.end()};
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

// Whether names of an adapter's file fit modules: by their ends, or as expressions.
FitsModule fits_module(const AdapterFolder& folder) {
    return [known = std::make_shared<std::map<std::string, WholeNames>>(), where = folder.config_path()](
               const std::string& pattern, bool is_whole, const std::string& module) {
        if (is_name(pattern)) return is_named_by(module, {pattern});
        const char* const before = is_whole ? "" : "(?:.*\\.)?";
        const auto found = known->try_emplace(before + pattern, pattern, ExitCode::model, where, before).first;
        return found->second.fit(module);
    };
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
        const std::vector<int> layers = target_layers(model, config.lora_target_modules);
        const AdapterSettings settings = new_adapter(config, model, layers);
        model = with_adapter(std::move(model), settings, layers);
        return std::nullopt;
    }
    AdapterFolder folder = AdapterFolder::open(files, adapter_folder_of(files, config.adapter));
    PeftConfig peft = read_peft_config(folder);
    read_by_module(folder, model, fits_module(folder), peft.settings);
    const std::vector<int> layers = peft_layers(folder, peft.settings, model);
    require_named(folder, peft, model, layers);
    check_peft_numbers(folder);
    require_base(folder, base);
    model = with_adapter(std::move(model), peft.settings, layers);
    return folder;
}

}  // namespace windlass
