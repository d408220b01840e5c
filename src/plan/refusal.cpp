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
    if (refused.recomputes && request.recompute != "true") flags += " --gradient-checkpointing true";
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
        if (installed > 0 && enough(bytes) > installed)
            missing_.push_back(fmt::format("{} of {}", format_bytes(enough(bytes)), what));
    }

    const Machine& machine_;
    const std::string_view host_;
    std::vector<std::string> flags_, missing_;
};

std::vector<std::string> enough_changes(const Nearest& nearest, const PlanRequest& request, const Machine& machine) {
    std::vector<std::string> changes, elsewhere;
    const auto add = [&](const Sizes& sizes, const Refused& with) {
        if (sizes.are_there())
            changes.push_back(sizes.flags() + flags_of(with, request));
        else
            elsewhere.push_back(sizes.missing());
    };
    const auto add_memory = [&](const Refused* with, bool of_host, bool of_device) {
        if (with == nullptr) return;
        Sizes sizes(machine, request.device);
        if (of_host) sizes.ram(with->evaluation.memory_bytes);
        if (of_device) sizes.device(with->evaluation.device_bytes);
        add(sizes, *with);
    };
    add_memory(nearest.memory, true, false);
    add_memory(nearest.device, false, true);
    if (nearest.memory == nullptr && nearest.device == nullptr) add_memory(nearest.memory_and_device, true, true);
    if (nearest.disk != nullptr) {
        Sizes sizes(machine, request.device);
        sizes.disk(nearest.disk->evaluation.disk_bytes);
        add(sizes, *nearest.disk);
    }
    if (nearest.writes != nullptr) changes.push_back("a larger --ssd-writes, or fewer steps");
    const bool trains = has(request, ScheduleRequest::Kind::train),
               decodes = has(request, ScheduleRequest::Kind::decode);
    changes.push_back(decodes && !trains ? "a shorter prompt or a smaller --max-new-tokens"
                                         : "a smaller --per-device-train-batch-size or --max-length");
    if (decodes && trains) changes.push_back("no --sample-prompts");
    changes.insert(changes.end(), elsewhere.begin(), elsewhere.end());
    return changes;
}

}  // namespace

NoFit nearest_fit(const std::vector<Refused>& refused, const PlanRequest& request, const Machine& machine) {
    const Nearest nearest(refused);
    if (nearest.any == nullptr)
        throw UserError(ExitCode::usage, "policy", "{} has no plan for {}", request.policy, device_name(request.device))
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
            places(budgets.ram, budgets.disk, budgets.device), enough_changes(nearest, request, machine)};
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
    if (recipe.runs(PassKind::backward) && recipe.update[cell] == nullptr)
        throw missing(fmt::format("update kernel of {}", recipe.name), device);
    if (recipe.probes() && recipe.materialize[cell] == nullptr)
        throw missing(fmt::format("kernel that perturbs weights for {}", recipe.name), device);
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
