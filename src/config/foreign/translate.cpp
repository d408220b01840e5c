#include "config/foreign/translate.h"

#include <algorithm>

#include "base/error.h"
#include "config/foreign/draft.h"
#include "config/foreign/recognise.h"

namespace windlass {
namespace {

int64_t marks_in(const ForeignTool& tool, std::span<const ForeignKey> keys) {
    return std::ranges::count_if(keys, [&](const ForeignKey& key) {
        return std::ranges::find(tool.marks, std::string_view(key.name)) != tool.marks.end();
    });
}

// The tool most of whose marks are there.
const ForeignTool& tool_of(std::span<const ForeignKey> keys, const std::string& path) {
    const ForeignTool* best = nullptr;
    int64_t most = 0;
    for (const ForeignTool* const tool : foreign_tools()) {
        const int64_t marks = marks_in(*tool, keys);
        if (marks == most) best = nullptr;
        if (marks > most) best = tool, most = marks;
    }
    if (best != nullptr) return *best;
    std::vector<std::string_view> names;
    for (const ForeignKey& key : keys) names.push_back(key.name);
    refuse_other_kinds(path, names);
    throw UserError(ExitCode::usage, path, "is no training file of LLaMA-Factory, axolotl or transformers")
        .hint("a file with model_name_or_path and stage, or with base_model and datasets");
}

void take(ForeignDraft& draft, const ForeignTool& tool, const ForeignKey& key) {
    const ForeignRule* const rule = find_foreign_rule(tool, key.name);
    if (key.value.kind == ForeignValue::Kind::null) return;
    if (rule == nullptr) return draft.drop(key.name, "nothing here has that name");
    if (rule->take != nullptr) return rule->take(draft, key);
    if (!rule->ours.empty()) return draft.set(rule->ours, key.value, key.name, std::string(rule->remark));
    // What is switched off there is not there.
    if (!key.value.is_false()) draft.drop(key.name, std::string(rule->reason));
}

// All three tools train with transformers' Trainer (docs/guide/differences.md).
void remark_differences(ForeignDraft& draft) {
    if (!draft.config().max_steps && draft.config().num_train_epochs > 1)
        draft.remark("num_train_epochs", "the last step of an epoch takes rows of the next; the Trainer's is shorter");
    for (const char* const key : {"eval_data", "val_split"})
        draft.remark(key, "the evaluation loss is a mean over tokens; the Trainer's is one over batches");
    if (draft.config().adapter == "ia3" && draft.config().weight_decay > 0)
        draft.remark("weight_decay",
                     "IA3's scales do not decay; the Trainer's do: param_groups: [\"*ia3_l* weight_decay=X\"]");
}

}  // namespace

std::span<const ForeignTool* const> foreign_tools() {
    static const ForeignTool* const tools[] = {&llama_factory(), &axolotl(), &transformers()};
    return tools;
}

const ForeignRule* find_foreign_rule(const ForeignTool& tool, std::string_view name) {
    for (const std::span<const ForeignRule> rules : {tool.rules, common_rules()}) {
        const auto found = std::ranges::find(rules, name, &ForeignRule::name);
        if (found != rules.end()) return &*found;
    }
    return nullptr;
}

Translation translate_config(FileSystem& files, const std::string& path) {
    const std::vector<ForeignKey> keys = read_foreign_file(files, path);
    const ForeignTool& tool = tool_of(keys, path);
    ForeignDraft draft(keys);
    for (const ForeignKey& key : keys) take(draft, tool, key);
    for (const ForeignDefault& each : tool.defaults) {
        if (!draft.is_set(each.ours))
            draft.set(each.ours, std::string(each.value), each.ours, fmt::format("{}'s default", tool.name));
    }
    tool.finish(draft);
    finish_common(draft);
    remark_differences(draft);
    return {.tool = tool.name,
            .yaml = fmt::format("# From a training file of {}.\n{}", tool.name, draft.yaml()),
            .dropped = draft.take_dropped()};
}

}  // namespace windlass
