#include "config/foreign/recognise.h"

#include <algorithm>

#include "base/error.h"
#include "base/shell_word.h"
#include "config/config_keys.h"
#include "config/foreign/draft.h"
#include "rows/data_files.h"

namespace windlass {
namespace {

bool has_any(std::span<const std::string_view> names, std::initializer_list<std::string_view> marks) {
    return std::ranges::any_of(marks,
                               [&](std::string_view mark) { return std::ranges::find(names, mark) != names.end(); });
}

std::string folder_of_file(std::string_view path) {
    const size_t slash = path.rfind('/');
    return shell_word(slash == std::string_view::npos ? "." : std::string(path.substr(0, std::max<size_t>(slash, 1))));
}

// Both have keys of their own and share some with transformers: the file is of a tool that knows every key that is not
// ours, and none that is ours alone.
bool is_file_of(const ForeignTool& tool, std::span<const std::string_view> names) {
    const auto is_mark = [&](std::string_view name) { return std::ranges::find(tool.marks, name) != tool.marks.end(); };
    if (std::ranges::count_if(names, is_mark) < 2) return false;
    bool has_theirs = false;
    for (const std::string_view name : names) {
        const bool is_theirs = find_foreign_rule(tool, name) != nullptr || is_mark(name);
        const bool is_ours = find_config_key(name) != nullptr;
        if (is_ours && !is_theirs) return false;
        has_theirs |= is_theirs && !is_ours;
    }
    return has_theirs;
}

}  // namespace

void refuse_other_kinds(std::string_view path, std::span<const std::string_view> names) {
    if (has_any(names, {"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"}))
        throw UserError(ExitCode::usage, path,
                        "is a configuration of DeepSpeed; here placement follows from the budgets")
            .hint("windlass plan --model MODEL --ram 32GiB --ssd-dir /nvme/windlass");
    if (has_any(names, {"peft_type"}))
        throw UserError(ExitCode::usage, path, "is the configuration of an adapter, not of a run")
            .hint(fmt::format("--adapter {}", folder_of_file(path)));
    if (has_any(names, {"architectures", "transformers_version", "weight_map", "tokenizer_class"}))
        throw UserError(ExitCode::usage, path, "is a file of a model folder, not the configuration of a run")
            .hint(fmt::format("--model {}", folder_of_file(path)));
}

void refuse_foreign_config(const std::string& path, std::span<const ConfigEntry> entries) {
    std::vector<std::string_view> names;
    for (const ConfigEntry& entry : entries) names.push_back(entry.key);
    if (std::ranges::all_of(names, [](std::string_view name) { return find_config_key(name) != nullptr; })) return;
    refuse_other_kinds(path, names);
    for (const ForeignTool* const tool : foreign_tools()) {
        if (!is_file_of(*tool, names)) continue;
        // A shell empties the target before the file is read.
        const std::string target = path.ends_with("run.yaml") ? "windlass.yaml" : "run.yaml";
        throw UserError(ExitCode::usage, path, "is a training file of {}, not a configuration of Windlass", tool->name)
            .hint(fmt::format("windlass config from {} > {}", shell_word(path), target));
    }
}

void refuse_foreign_ending(const std::string& path) {
    if (has_rows_ending(path) && !path.ends_with(".json"))
        throw UserError(ExitCode::usage, path, "is a file of rows, not a configuration")
            .hint(fmt::format("--train-data {}", shell_word(path)));
    if (path.ends_with(".safetensors") || path.ends_with(".gguf") || path.ends_with(".bin"))
        throw UserError(ExitCode::usage, path, "is a file of weights, not a configuration")
            .hint(fmt::format("--model {}", folder_of_file(path)));
}

}  // namespace windlass
