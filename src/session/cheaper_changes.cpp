#include "session/cheaper_changes.h"

#include <algorithm>

#include "schedule/kernel_rate.h"
#include "session/budget.h"

namespace windlass {
namespace {

constexpr int64_t kTimesRows = 16;  // rows of a step that are tried, over those it has
constexpr int64_t kMicroBatchesMost = 64;
constexpr std::string_view kAuto = "auto";

ChangeKind other_formats(const Session& session) {
    ChangeKind kind;
    if (session.recipe.state.empty()) return kind;
    for (const StateFormat format : kStateFormats) {
        if (format > session.numerics().state_format)
            kind.emplace_back([format](Variation& variation) { variation.state_format = format; });
    }
    return kind;
}

// A kernel that was not measured goes by the rate of large products, which says too little to compare by.
bool knows_kernels(const Session& session, int64_t micro_batch_size, DType compute) {
    if (session.machine.kernels.empty()) return true;
    std::vector<OpSize> sizes;
    for (const int64_t length : session.numerics().sequence_lengths)
        sizes.push_back({.rows = micro_batch_size,
                         .sequence_length = length,
                         .device = session.request.device.kind,
                         .compute = compute});
    const std::vector<KernelCase> cases = kernel_cases(session.model, session.recipe, sizes);
    return std::ranges::all_of(cases, [&](const KernelCase& c) { return session.machine.kernels.contains(c.key); });
}

// The same rows cut into other micro-batches. If the user has not said how, the planner has tried all.
ChangeKind other_micro_batches(const Session& session) {
    ChangeKind kind;
    const Numerics& now = session.numerics();
    const int64_t rows = session.rows_per_step();
    for (int64_t cut = session.rows_per_example(); cut <= rows; cut *= 2) {
        if (!session.config.per_device_train_batch_size || rows % cut != 0 || cut == now.micro_batch_size) continue;
        if (!knows_kernels(session, cut, now.compute)) continue;
        kind.emplace_back([cut](Variation& variation) {
            variation.micro_batches = variation.micro_batch_size * variation.micro_batches / cut;
            variation.micro_batch_size = cut;
        });
    }
    return kind;
}

// Weights cross a link once a step, however many rows it has. Of a step that has many micro-batches there is little to
// gain, and planning takes as long as there are micro-batches.
ChangeKind more_rows(const Session& session) {
    ChangeKind kind;
    for (int64_t times = 4; times <= kTimesRows; times *= 4) {
        if (times * session.numerics().micro_batches > kMicroBatchesMost) break;
        kind.emplace_back([times](Variation& variation) { variation.micro_batches *= times; });
        if (session.config.per_device_train_batch_size &&
            knows_kernels(session, times * session.numerics().micro_batch_size, session.numerics().compute))
            kind.emplace_back([times](Variation& variation) { variation.micro_batch_size *= times; });
    }
    return kind;
}

ChangeKind more_of_the_device(const Session& session) {
    const auto bytes = static_cast<int64_t>(kDeviceShare * static_cast<double>(session.machine.device_memory_bytes));
    if (bytes <= session.request.budgets.device) return {};
    return {[bytes](Variation& variation) { variation.device_bytes = bytes; }};
}

// What the user has decided, decided by the planner: which values are kept, when updates run, where things live.
ChangeKind planners_choice(const Session& session) {
    ChangeKind kind;
    const Variation now = variation_of(session);
    if (now.recompute) kind.emplace_back([](Variation& variation) { variation.recompute.reset(); });
    if (now.update_time) kind.emplace_back([](Variation& variation) { variation.update_time.reset(); });
    if (!now.policy.empty()) kind.emplace_back([](Variation& variation) { variation.policy.clear(); });
    if (kind.size() > 1)
        kind.emplace_back([all = kind](Variation& variation) {
            for (const Change& change : all) change(variation);
        });
    return kind;
}

// Models in f32 files are computed in f32 unless dtype says otherwise.
ChangeKind narrower_computing(const Session& session) {
    const Numerics& now = session.numerics();
    if (now.compute != DType::f32 || !knows_kernels(session, now.micro_batch_size, DType::bf16)) return {};
    return {[](Variation& variation) { variation.compute = DType::bf16; }};
}

}  // namespace

std::vector<ChangeKind> cheaper_changes(const Session& session) {
    return {other_formats(session),      more_rows(session),       other_micro_batches(session),
            more_of_the_device(session), planners_choice(session), narrower_computing(session)};
}

// What differs from the session, as words of a configuration.
CheaperSettings settings_of(const Session& session, const Variation& variation) {
    const Variation now = variation_of(session);
    const int64_t accumulation = session.config.gradient_accumulation_steps;
    CheaperSettings settings;
    const auto add = [&](std::string key, std::string_view value) { settings.emplace_back(std::move(key), value); };
    if (variation.state_format != now.state_format) add("state_format", state_format_name(variation.state_format));
    if (variation.compute != now.compute) add("dtype", dtype_name(variation.compute));
    if (variation.micro_batch_size != now.micro_batch_size)
        add("per_device_train_batch_size", fmt::format("{}", variation.micro_batch_size / session.rows_per_example()));
    if (variation.micro_batches != now.micro_batches)
        add("gradient_accumulation_steps",
            fmt::format("{}", accumulation * variation.micro_batches / now.micro_batches));
    if (variation.device_bytes != now.device_bytes) add("device_memory", fmt::format("{:.0f}%", 100 * kDeviceShare));
    if (variation.recompute != now.recompute) add("gradient_checkpointing", kAuto);
    if (variation.update_time != now.update_time) add("update_time", kAuto);
    if (variation.policy != now.policy) add("policy", kAuto);
    return settings;
}

std::string changes_of(const Session& session, const Variation& variation) {
    const Numerics& now = session.numerics();
    std::string text;
    const auto add = [&](const std::string& change) { text += (text.empty() ? "" : ", ") + change; };
    const int64_t rows = variation.micro_batch_size * variation.micro_batches;
    if (rows != session.rows_per_step()) add(fmt::format("{} rows a step, not {}", rows, session.rows_per_step()));
    if (variation.compute != now.compute)
        add(fmt::format("computes in {}, not {}: other losses", dtype_name(variation.compute),
                        dtype_name(now.compute)));
    return text;
}

std::string settings_words(const CheaperSettings& settings) {
    std::string text;
    for (const auto& [key, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
    return text;
}

}  // namespace windlass
