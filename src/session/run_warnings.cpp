#include "session/run_warnings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/index.h"
#include "base/plural.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr float kZero = 1e-16f;          // nothing that was drawn or trained is nearer to 0 in all channels
constexpr int64_t kEqualRows = 3;        // other special tokens with the very row
constexpr int64_t kComparedMost = 1024;  // special tokens that are read

using TableRow = std::vector<float>;

TableRow read_row(const Session& session, const ParamSpec& table, int32_t id) {
    TableRow row(at(table.shape[1]));
    load_elements(session.folder, table, id * table.shape[1], row);
    return row;
}

bool is_table(const Session& session, const Param& param) {
    const Shape& shape = param.spec.shape;
    return !param.spec.added && shape.rank() == 2 && shape[0] == session.model.vocab &&
           shape[1] == session.model.hidden;
}

// All special tokens that have a row, the template's first.
std::vector<int32_t> compared_ids(const Session& session) {
    const Tokenizer& tokenizer = *session.tokenizer;
    const auto end = static_cast<int32_t>(std::min<int64_t>(tokenizer.vocab_size(), session.model.vocab));
    const std::vector<int32_t>& own = session.data->template_ids();
    std::vector<int32_t> ids;
    std::ranges::copy_if(own, std::back_inserter(ids), [&](int32_t id) { return id < end; });
    for (int32_t id = 0; id < end && std::ssize(ids) < kComparedMost; ++id) {
        if (tokenizer.is_special(id) && std::ranges::find(own, id) == own.end()) ids.push_back(id);
    }
    return ids;
}

struct Untrained {
    std::vector<int32_t> zero, equal;  // tokens
};

// Of a table that is frozen else.
bool trains_row(const ModelSpec& model, const ParamSpec& table, int32_t id) {
    if (!model.adapter) return false;
    return std::ranges::any_of(model.adapter->tokens, [&](const auto& each) {
        const std::string name = each.first + ".weight";
        const bool is_of_table = table.name == name || table.tied_name == name;
        return is_of_table && std::ranges::find(each.second, id) != each.second.end();
    });
}

Untrained untrained_in(const Session& session, const ParamSpec& table, const std::vector<int32_t>& ids) {
    std::map<TableRow, int64_t> count;
    for (const int32_t id : ids) ++count[read_row(session, table, id)];
    Untrained found;
    for (const int32_t id : session.data->template_ids()) {
        if (std::ranges::find(ids, id) == ids.end() || trains_row(session.model, table, id)) continue;
        const TableRow row = read_row(session, table, id);
        if (std::ranges::all_of(row, [](float value) { return std::abs(value) <= kZero; }))
            found.zero.push_back(id);
        else if (count[row] > kEqualRows)
            found.equal.push_back(id);
    }
    return found;
}

// The key that trains these rows next to the run's adapter.
std::string rows_advice(const ModelSpec& model, const ParamSpec& table, const std::vector<int32_t>& ids) {
    if (!model.adapter || model.adapter->kind == "lsp") return "";
    if (model.adapter->kind == "ia3") return "modules_to_save: [embed_tokens, lm_head], ";
    std::set<int64_t> all(ids.begin(), ids.end());  // with those that train already
    for (const auto& [layer, tokens] : model.adapter->tokens) all.insert(tokens.begin(), tokens.end());
    const std::string list = fmt::format("[{}]", fmt::join(all, ", "));
    if (!table.tied_name.empty()) return fmt::format("trainable_token_indices: {}, ", list);
    return fmt::format("trainable_token_indices: {{embed_tokens: {0}, lm_head: {0}}}, ", list);
}

// Empty where a step has a rate above 0.
std::string rate_problem(const Session& session) {
    const LrSchedule& schedule = session.identity.schedule;
    if (schedule.total_steps == 0) return "";
    for (int64_t step = 1; step <= schedule.total_steps; ++step) {
        if (learning_rate(schedule, step) > 0) return "";
    }
    if (schedule.peak == 0) return "learning_rate is 0: no step changes a weight. Try: learning_rate: 2e-5";
    return fmt::format(
        "the learning rate of every step is 0, since the run has {} and {} of warmup: no weight changes. "
        "Try: warmup_steps: 0 and warmup_ratio: 0, or a larger max_steps",
        counted(schedule.total_steps, "step"), schedule.warmup_steps);
}

void warn_of_tokens(const Session& session, std::vector<std::string>& warnings) {
    if (!session.data || session.data->template_ids().empty() || session.folder.tensors().empty()) return;
    const std::vector<int32_t> ids = compared_ids(session);
    for (const Param& param : session.model.all_params()) {
        if (!is_table(session, param) || param.trains()) continue;
        const Untrained found = untrained_in(session, param.spec, ids);
        const auto warn = [&](const std::vector<int32_t>& ids, std::string_view what) {
            if (ids.empty()) return;
            std::vector<std::string> tokens;
            for (const int32_t id : ids) tokens.push_back(session.tokenizer->id_to_token(id));
            warnings.push_back(
                fmt::format("{}: the rows of {}, which the chat template writes, {}: the base never learned them, and "
                            "this run does not train {}. Try: the Instruct version of the base, {}or chat_template: "
                            "FILE, a template of tokens that the base knows",
                            param.spec.name, fmt::join(tokens, " and "), what, ids.size() == 1 ? "it" : "them",
                            rows_advice(session.model, param.spec, ids)));
        };
        warn(found.zero, "are zero");
        warn(found.equal, "equal the rows of several other special tokens");
    }
}

void warn_of_unknown_tokens(const Session& session, std::vector<std::string>& warnings) {
    if (!session.tokenizer || !session.model.adapter) return;
    std::set<int64_t> unknown;
    for (const auto& [layer, tokens] : session.model.adapter->tokens)
        std::ranges::copy_if(tokens, std::inserter(unknown, unknown.end()),
                             [&](int64_t token) { return token >= session.tokenizer->vocab_size(); });
    if (!unknown.empty())
        warnings.push_back(
            fmt::format("trainable_token_indices: {}: no text has these tokens, since the tokenizer's last "
                        "one is {}. Try: a tokenizer with them, or other ids",
                        fmt::join(unknown, ", "), session.tokenizer->vocab_size() - 1));
}

// On the run's device, or on that of a machine that is described.
void warn_of_slow_kernels(const Session& session, std::vector<std::string>& warnings) {
    const bool has_card = !session.config.machine.empty() && session.machine.device_memory_bytes > 0;
    const OpSize size{.device = has_card ? DeviceKind::cuda : computing_device(session.config).kind,
                      .compute = session.numerics().compute};
    std::set<std::string> found;
    for (const Block& block : session.model.blocks)
        for (const Node& node : block.program->nodes) {
            const OpCells& cells = node.op->on(size.device);
            if (cells.slow_kernels == nullptr) continue;
            const std::string why = cells.slow_kernels(node.spec, size);
            if (!why.empty() && found.insert(why).second)
                warnings.push_back(fmt::format("{} on the device takes {}", node.op->name, why));
        }
}

}  // namespace

std::vector<std::string> run_warnings(const Session& session) {
    std::vector<std::string> warnings;
    if (std::string problem = rate_problem(session); !problem.empty()) warnings.push_back(std::move(problem));
    warn_of_tokens(session, warnings);
    warn_of_unknown_tokens(session, warnings);
    warn_of_slow_kernels(session, warnings);
    return warnings;
}

}  // namespace windlass
