#include "session/session_plan.h"

#include "base/error.h"
#include "base/math.h"
#include "base/units.h"
#include "op/batch.h"
#include "perturb/factors.h"

namespace windlass {
namespace {

constexpr int64_t kAutoRows = 8;  // rows that a step has for each of gradient_accumulation_steps when rows are `auto`

constexpr int64_t kMicroRowsMax = 65536;

std::vector<ScheduleRequest> schedule_requests(const Numerics& numerics, bool evaluates) {
    std::vector<ScheduleRequest> requests;
    for (const int64_t length : numerics.sequence_lengths) {
        ScheduleRequest request{.rows = numerics.micro_batch_size,
                                .sequence_length = length,
                                .micro_batches = static_cast<int>(numerics.micro_batches)};
        requests.push_back(request);
        request.kind = ScheduleRequest::Kind::eval;
        if (evaluates) requests.push_back(request);
    }
    return requests;
}

// Bytes that each step may write, so that the run stays within ssd_writes; 0: as many as it likes.
int64_t step_disk_writes(Session& session) {
    const std::string& text = session.config.ssd_writes.text;
    if (text.empty()) return 0;
    const int64_t steps = resolve_steps(session);
    if (steps == 0)
        throw UserError(ExitCode::usage, "ssd_writes", "the length of the run is not known").hint("give max_steps");
    return std::max<int64_t>(1, parse_bytes(text, "ssd_writes") / steps);
}

// Plans every shape of a micro-batch and keeps the fastest that fits; the refusal is that of the smallest.
void plan_shapes(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.identity.numerics;
    bool found = false;
    std::exception_ptr refusal;
    for (const auto& [rows, count] : micro_choices(session, recorded)) {
        Numerics choice = numerics;
        choice.micro_batch_size = rows;
        choice.micro_batches = count;
        PlanRequest request = session.request;
        request.schedules = schedule_requests(choice, session.has_eval());
        request.budgets.step_disk_writes = step_disk_writes(session);
        try {
            Planned planned = make_plan(session.model, session.recipe, choice, session.machine, request);
            if (found && planned.mean_seconds >= session.planned.mean_seconds) continue;
            session.planned = std::move(planned);
            session.request = std::move(request);
            numerics = choice;
            found = true;
        } catch (const UserError& error) {
            if (error.code() != ExitCode::no_fit) throw;
            refusal = std::current_exception();
        }
    }
    if (!found) std::rethrow_exception(refusal);
}

// The state format that is asked for, or the most exact one that fits.
void plan_formats(Session& session, const std::optional<RunState>& recorded) {
    const bool is_open = session.config.state_format == "auto" && !recorded && !session.recipe.state.empty();
    for (const StateFormat format : kStateFormats) {
        if (is_open) {
            session.method_options.state_format = session.identity.numerics.state_format = format;
            session.recipe = make_recipe(session.config.method, session.method_options);
        }
        try {
            plan_shapes(session, recorded);
            if (is_open && format != kStateFormats[0])
                session.notes.push_back(fmt::format("state_format is {}: with {} nothing fits",
                                                    state_format_name(format), state_format_name(kStateFormats[0])));
            return;
        } catch (const UserError& error) {
            const bool is_last = format == *std::prev(std::end(kStateFormats));
            if (error.code() != ExitCode::no_fit || !is_open || is_last) throw;
        }
    }
}

// What is planned for one number of directions.
struct PlannedDirections {
    MethodOptions options;
    Recipe recipe;
    Numerics numerics;
    PlanRequest request;
    Planned planned;
};

// Weights move once for all directions of a step. While that is what a step waits for, twice as many cost little: they
// are taken as long as the step then has at least one and a half times as many a second.
constexpr double kNearlyFree = 1.5;

bool is_nearly_free(const Session& session, const PlannedDirections& before) {
    const double rate = session.method_options.directions / session.planned.mean_seconds;
    return rate >= kNearlyFree * before.options.directions / before.planned.mean_seconds;
}

// With twice as many directions. False, and nothing is changed: they do not fit, or cost too much.
bool plan_twice_as_many(Session& session, const std::optional<RunState>& recorded) {
    PlannedDirections before{session.method_options, session.recipe, session.identity.numerics, session.request,
                             std::move(session.planned)};
    session.method_options.directions *= 2;
    session.recipe = make_recipe(session.config.method, session.method_options);
    try {
        plan_formats(session, recorded);
        if (is_nearly_free(session, before)) return true;
    } catch (const UserError& error) {
        if (error.code() != ExitCode::no_fit) throw;
    }
    session.method_options = before.options;
    session.recipe = std::move(before.recipe);
    session.identity.numerics = std::move(before.numerics);
    session.request = std::move(before.request);
    session.planned = std::move(before.planned);
    return false;
}

}  // namespace

int64_t resolve_steps(Session& session) {
    if (session.config.max_steps) return *session.config.max_steps;
    if (!session.data) return 0;
    const int64_t rows = session.data->training().rows_in_passes(session.config.num_train_epochs);
    return std::max<int64_t>(1, div_up(rows, session.examples_per_step()));
}

std::vector<std::pair<int64_t, int64_t>> micro_choices(const Session& session,
                                                       const std::optional<RunState>& recorded) {
    const Config& config = session.config;
    const int64_t accumulation = config.gradient_accumulation_steps, rows_each = session.rows_per_example();
    if (config.per_device_train_batch_size) {
        const int64_t rows = *config.per_device_train_batch_size * rows_each;
        if (rows > kMicroRowsMax)
            throw UserError(ExitCode::usage, "per_device_train_batch_size",
                            "{} examples of {} candidates are {} rows; {} are the most", rows / rows_each, rows_each,
                            rows, kMicroRowsMax)
                .hint("a larger gradient_accumulation_steps");
        return {{rows, accumulation}};
    }
    if (recorded) return {{recorded->identity.numerics.micro_batch_size, recorded->identity.numerics.micro_batches}};
    std::vector<std::pair<int64_t, int64_t>> choices;
    for (int64_t rows = kAutoRows; rows >= 1; rows /= 2)
        choices.emplace_back(rows * rows_each, accumulation * (kAutoRows / rows));
    return choices;
}

void plan_session(Session& session, const std::optional<RunState>& recorded) {
    plan_formats(session, recorded);
    const MethodOptions& options = session.method_options;
    const bool is_open = !session.config.directions && !recorded && session.recipe.probes();
    const auto has_room = [&] {
        const int window = options.moments == NoiseMoments::none ? 1 : options.replay_window;
        const int rank = options.noise == NoiseKind::low_rank ? options.noise_rank : 0;
        return 2 * options.directions <= kDirectionsMax &&
               (rank == 0 || is_room_for(2 * options.directions * window, rank));
    };
    while (is_open && has_room() && plan_twice_as_many(session, recorded)) {
    }
    if (session.recipe.probes()) session.identity.directions = options.directions;
    if (is_open && options.directions > 1)
        session.notes.push_back(
            fmt::format("directions is {}: most of a step, {}, is moving weights, once for all of them",
                        options.directions, format_seconds(session.planned.mean_seconds)));
}

}  // namespace windlass
