#include "plan/refusal.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "perturb/weight_op.h"

namespace windlass {
namespace {

// Half a percent to spare: the program itself takes a little more or less memory each time.
int64_t enough(int64_t bytes) {
    return bytes + bytes / 200;
}

bool has(const PlanRequest& request, ScheduleRequest::Kind kind) {
    return std::ranges::any_of(request.schedules, [&](const ScheduleRequest& each) { return each.kind == kind; });
}

// The flags that choose it and that the request does not have yet; empty if nothing is trained, then no flags exist.
std::string flags_of(const Refused& refused, const PlanRequest& request) {
    std::string flags;
    if (!has(request, ScheduleRequest::Kind::train)) return flags;
    if (refused.policy != request.policy) flags += fmt::format(" --policy {}", refused.policy);
    if (refused.recomputes && request.recompute != true) flags += " --gradient-checkpointing true";
    return flags;
}

// Among those that `allowed` accepts, the one with the least `bytes`; null without any.
template <typename Allowed>
const Refused* least_of(const std::vector<Refused>& refused, int64_t Evaluation::*bytes, Allowed allowed) {
    const Refused* least = nullptr;
    for (const Refused& each : refused) {
        if (!allowed(each.evaluation)) continue;
        if (least == nullptr || each.evaluation.*bytes < least->evaluation.*bytes) least = &each;
    }
    return least;
}

// Evaluations that are short of this, and of nothing else.
auto short_of(int64_t Evaluation::*over) {
    return [over](const Evaluation& e) { return e.*over > 0 && e.over() == e.*over; };
}

// What would fit with a little more of one thing.
struct Nearest {
    explicit Nearest(const std::vector<Refused>& refused)
        : memory(least_of(refused, &Evaluation::memory_bytes,
                          [](const Evaluation& e) {
                              return e.over() == e.memory_over;  // of a choice that only an estimate lets fit too
                          })),
          device(least_of(refused, &Evaluation::device_bytes, short_of(&Evaluation::device_over))),
          disk(least_of(refused, &Evaluation::disk_bytes, short_of(&Evaluation::disk_over))),
          writes(least_of(refused, &Evaluation::write_bytes, short_of(&Evaluation::write_over))),
          memory_and_device(least_of(refused, &Evaluation::memory_bytes,
                                     [](const Evaluation& e) { return e.disk_over == 0 && e.write_over == 0; })),
          any(least_of(refused, &Evaluation::memory_bytes, [](const Evaluation&) { return true; })) {}

    const Refused *memory, *device, *disk, *writes, *memory_and_device, *any;
};

// Budgets as words that can be appended to the command; and, where the machine does not have as much, what to look for.
class Sizes {
  public:
    explicit Sizes(const Machine& machine, const DeviceId& device)
        : machine_(machine), host_(device.own_memory ? "host memory" : "memory") {}

    void ram(int64_t bytes) { add("--ram", host_, bytes, machine_.memory_bytes); }
    void device(int64_t bytes) { add("--device-memory", "device memory", bytes, machine_.device_memory_bytes); }
    void disk(int64_t bytes) { add("--ssd-dir DIR --ssd-space", "disk", bytes, machine_.disk_bytes); }

    bool are_there() const { return missing_.empty(); }
    std::string flags() const { return fmt::format("{}", fmt::join(flags_, " ")); }
    std::string missing() const { return fmt::format("a machine with {}", fmt::join(missing_, " and ")); }

  private:
    // `installed` 0: not known.
    void add(std::string_view flag, std::string_view what, int64_t bytes, int64_t installed) {
        flags_.push_back(fmt::format("{} {}", flag, size_to_type(enough(bytes))));
        // A size that the machine lacks is no way out: --device-memory 58GiB was once offered for a card of 24 GiB.
        if (installed > 0 && enough(bytes) > installed)
            missing_.push_back(fmt::format("{} of free {}", format_bytes(enough(bytes)), what));
    }

    const Machine& machine_;
    const std::string_view host_;
    std::vector<std::string> flags_, missing_;
};

// With less in a step: for a run that trains, or evaluates as if it did, and for one that writes texts.
std::vector<std::string> smaller_steps(const PlanRequest& request) {
    const bool trains = has(request, ScheduleRequest::Kind::train),
               decodes = has(request, ScheduleRequest::Kind::decode);
    if (decodes && !trains) return {"a shorter prompt or a smaller --max-new-tokens"};
    const bool has_rows = std::ranges::any_of(request.schedules, [&](const ScheduleRequest& each) {
        return each.kind != ScheduleRequest::Kind::decode && each.rows > request.example_rows;
    });
    std::vector<std::string> changes = {has_rows ? "a smaller --per-device-train-batch-size or --max-length"
                                                 : "a smaller --max-length"};
    if (decodes) changes.push_back("no --sample-prompts");
    return changes;
}

std::vector<std::string> enough_changes(const Nearest& nearest, const PlanRequest& request, const Machine& machine,
                                        bool shrinks) {
    std::vector<std::string> changes, elsewhere;
    // What is over its budget.
    const auto add = [&](const Refused* with, bool memory, bool device, bool disk) {
        if (with == nullptr) return;
        Sizes sizes(machine, request.device);
        if (memory) sizes.ram(with->evaluation.memory_bytes);
        if (device) sizes.device(with->evaluation.device_bytes);
        if (disk) sizes.disk(with->evaluation.disk_bytes);
        if (sizes.are_there())
            changes.push_back(sizes.flags() + flags_of(*with, request));
        else
            elsewhere.push_back(sizes.missing());
    };
    add(nearest.memory, true, false, false);
    add(nearest.device, false, true, false);
    // Both at once only if neither alone is enough.
    if (nearest.memory == nullptr && nearest.device == nullptr) add(nearest.memory_and_device, true, true, false);
    add(nearest.disk, false, false, true);
    if (nearest.writes != nullptr) changes.push_back("a larger --ssd-writes, or fewer steps");
    if (changes.empty() && elsewhere.empty()) {
        const Evaluation& any = nearest.any->evaluation;
        add(nearest.any, any.memory_over > 0, any.device_over > 0, any.disk_over > 0);
        if (any.write_over > 0) (changes.empty() ? elsewhere : changes)[0] += " and a larger --ssd-writes";
    }
    // Where weights, gradients and state alone exceed the budget, no smaller batch helps.
    if (shrinks) {
        const std::vector<std::string> smaller = smaller_steps(request);
        changes.insert(changes.end(), smaller.begin(), smaller.end());
    }
    // Flags that can be typed come before machines that would have to be bought.
    changes.insert(changes.end(), elsewhere.begin(), elsewhere.end());
    return changes;
}

}  // namespace

NoFit nearest_fit(const std::vector<Refused>& refused, const PlanRequest& request, const Machine& machine,
                  bool shrinks) {
    const Nearest nearest(refused);
    if (nearest.any == nullptr)
        throw UserError(ExitCode::usage, "policy", "{} has no plan for {}",
                        request.policy.empty() ? "auto" : request.policy, device_name(request.device))
            .hint("policy: auto");
    const Refused* closest = nearest.any;
    for (const Refused* each : {nearest.memory_and_device, nearest.device, nearest.memory})
        if (each != nullptr) closest = each;
    const Evaluation& need = closest->evaluation;
    const auto places = [&](int64_t memory, int64_t disk, int64_t device) {
        if (!request.device.own_memory)
            return fmt::format("{} of memory and {} of disk", format_bytes(memory), format_bytes(disk));
        return fmt::format("{} of host memory, {} of disk and {} of device memory", format_bytes(memory),
                           format_bytes(disk), format_bytes(device));
    };
    const Budgets& budgets = request.budgets;
    return {places(enough(need.memory_bytes), enough(need.disk_bytes), enough(need.device_bytes)),
            places(budgets.ram, budgets.disk, budgets.device), enough_changes(nearest, request, machine, shrinks)};
}

UserError NoFit::error() const {
    return UserError(ExitCode::no_fit, "plan", "does not fit\n  needs at least {}\n  allowed are {}\n  Try: {}", needs,
                     allowed, fmt::join(ways_out, kNextWayOut));
}

namespace {

// Evaluation runs forward whatever the method.
std::vector<DiffMode> modes_of(const Recipe& recipe) {
    std::vector<DiffMode> modes = {DiffMode::forward};
    if (recipe.runs(PassKind::backward)) modes.push_back(DiffMode::vjp);
    if (recipe.runs(PassKind::tangent)) modes.push_back(DiffMode::jvp);
    return modes;
}

UserError missing(std::string_view what, DeviceKind device) {
    return UserError(ExitCode::gpu, "device", "this build has no {} for {}", what, device_kind_name(device))
        .hint("device: cpu");
}

}  // namespace

// Before a plan is searched, not in its first step: a search may take minutes.
void require_kernels(const ModelSpec& model, const Recipe& recipe, DeviceKind device) {
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            for (const DiffMode mode : modes_of(recipe)) {
                if (node.op->on(device).of(mode) == nullptr)
                    throw missing(fmt::format("{} kernel of {}", diff_mode_name(mode), node.op->name), device);
            }
        }
    }
    const auto cell = static_cast<size_t>(device);
    for (const Act& act : recipe.acts) {
        if (act.kernel->cells[cell] == nullptr)
            throw missing(fmt::format("{} kernel of {}", act.kernel->name, recipe.name), device);
    }
    // On such devices the list of directions travels as an argument of the launch, which has a limited size.
    if (recipe.terms > step_terms_max(device))
        throw UserError(ExitCode::usage, "device", "a step of {} has {} directions, but {} takes {} at a time",
                        recipe.name, recipe.terms, device_kind_name(device), step_terms_max(device))
            .hint("fewer directions, a smaller replay_window, or device: cpu");
}

void refuse_policy(std::string_view policy) {
    std::vector<std::string_view> names = {"auto"};
    for (const Policy* known : all_policies()) names.push_back(known->name);
    throw UserError(ExitCode::usage, "policy", "there is no policy \"{}\"", policy)
        .hint(fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace windlass
