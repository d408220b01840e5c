#include "session/session_plan.h"

#include "base/activity.h"
#include "base/error.h"
#include "base/math.h"
#include "base/units.h"
#include "config/choices.h"
#include "op/batch.h"
#include "perturb/factors.h"
#include "session/phase.h"

namespace windlass {
namespace {

constexpr int64_t kAutoRows = 8;  // rows that a step has for each of gradient_accumulation_steps when rows are `auto`

// No more of them than an epoch has, with all accumulation steps.
int64_t auto_rows(const RunSpec& session) {
    if (!session.data) return kAutoRows;
    // Otherwise three rows in steps of eight would be trained 2.67 times an epoch, without a word.
    const int64_t share = session.data->epoch_rows() / session.config.gradient_accumulation_steps;
    return std::clamp<int64_t>(share, 1, kAutoRows);
}

constexpr int64_t kMicroRowsMax = 65536;

std::vector<ScheduleRequest> schedule_requests(const Session& session, const Recipe& recipe, const Numerics& numerics) {
    std::vector<ScheduleRequest> requests;
    for (const int64_t length : numerics.sequence_lengths) {
        ScheduleRequest request{.rows = numerics.micro_batch_size,
                                .sequence_length = length,
                                .micro_batches = static_cast<int>(numerics.micro_batches),
                                .writes_answers = writes_answers(session.config, recipe)};
        requests.push_back(request);
        request.kind = ScheduleRequest::Kind::eval;
        request.writes_answers = false;
        // Only what this run does: a plan reserves memory for each schedule that it is asked for.
        if (session.has_eval() || needs_references(session)) requests.push_back(request);
    }
    for (const ScheduleRequest& request : sample_requests(session.samples)) requests.push_back(request);
    if (session.phase.every > 0) requests.push_back(phase_request(session.phase, numerics));
    return requests;
}

// Bytes that each step may write, so that the run stays within ssd_writes; 0: as many as it likes.
int64_t step_disk_writes(const Session& session) {
    const std::string& text = session.config.ssd_writes.text;
    if (text.empty()) return 0;
    const int64_t steps = steps_of(session);
    if (steps == 0)
        throw UserError(ExitCode::usage, "ssd_writes", "the length of the run is not known").hint("give max_steps");
    return std::max<int64_t>(1, parse_bytes(text, "ssd_writes") / steps);
}

// Everything that a plan is made for.
struct Draft {
    MethodOptions options;
    Recipe recipe;
    Numerics numerics;
    PlanRequest request;
};
struct PlannedDraft {
    Draft draft;
    Planned planned;
    std::optional<NoFit> exact;  // why not the most exact format of the state, where that does not fit
};
using Outcome = std::variant<PlannedDraft, NoFit>;

using Shape = std::pair<int64_t, int64_t>;  // rows, micro-batches

Draft in_shape(const Session& session, Draft draft, const Shape& shape) {
    std::tie(draft.numerics.micro_batch_size, draft.numerics.micro_batches) = shape;
    draft.request.schedules = schedule_requests(session, draft.recipe, draft.numerics);
    draft.request.example_rows = session.rows_per_example();
    return draft;
}

// Than the fastest so far. The fewer the rows the more often weights move: what costs so much already costs more with
// fewer of them.
// In 54 random questions this lost nothing and saved half of the searches.
constexpr double kNoLongerFaster = 1.02;

// Than what one search found, by looks at fewer rows: a search of their own would find more.
constexpr double kWorthSearching = 0.02;

class ShapeSearch {
  public:
    ShapeSearch(const Session& session, const Draft& draft) : session_(session), draft_(draft) {}

    // Of every shape of a micro-batch, the largest first, the fastest that fits; the refusal is that of the smallest,
    // which is tried as soon as another does not fit: nothing fits where it does not.
    Outcome run(const std::vector<Shape>& shapes) {
        NoFit refusal;
        bool is_first = true;
        for (const Shape& shape : shapes) {
            std::optional<NoFit> none = plan(shape, rival_);
            if (!none) {
                is_first = false;
                continue;
            }
            if (rival_ && none->slower_seconds > rival_->seconds * kNoLongerFaster) break;
            refusal = std::move(*none);
            if (!std::exchange(is_first, false) || shapes.size() == 1) continue;
            const Draft least = in_shape(session_, draft_, shapes.back());
            if (auto final =
                    refuse_early(session_.model, least.recipe, least.numerics, session_.machine, least.request))
                return std::move(*final);
        }
        if (!best_) return refusal;
        // A first look is a few descents; so large a gain deserves a whole search.
        if (best_->planned.mean_seconds < searched_seconds_ * (1 - kWorthSearching)) plan(best_shape_, std::nullopt);
        return std::move(*best_);
    }

  private:
    // Keeps what it finds if that is the fastest so far.
    std::optional<NoFit> plan(const Shape& shape, const std::optional<Rival>& rival) {
        Draft choice = in_shape(session_, draft_, shape);
        PlanOutcome outcome = find_plan(
            session_.plan_cache,
            {session_.model, choice.recipe, choice.options, choice.numerics, session_.machine, choice.request, rival});
        if (auto* none = std::get_if<NoFit>(&outcome)) return std::move(*none);
        auto& planned = std::get<Planned>(outcome);
        if (!rival) searched_seconds_ = planned.mean_seconds;
        if (best_ && planned.mean_seconds >= best_->planned.mean_seconds) return std::nullopt;
        rival_ = Rival{planned.plan.policy, planned.choice, planned.mean_seconds};
        best_shape_ = shape;
        best_ = PlannedDraft{std::move(choice), std::move(planned), std::nullopt};
        return std::nullopt;
    }

    const Session& session_;
    const Draft& draft_;
    std::optional<PlannedDraft> best_;
    Shape best_shape_;
    std::optional<Rival> rival_;  // the best, of more rows
    double searched_seconds_ = 0;
};

Outcome plan_shapes(const Session& session, const std::optional<RunState>& recorded, const Draft& draft) {
    return ShapeSearch(session, draft).run(micro_choices(session, recorded));
}

bool leaves_format_open(const Session& session, const std::optional<RunState>& recorded) {
    return !state_format_of(session.config) && !recorded && !session.recipe.state.empty() &&
           !session.recipe.uses_gradients_at_once();  // whose state has one format
}

// The state format that is asked for, or the most exact one that fits.
Outcome plan_formats(const Session& session, const std::optional<RunState>& recorded, const Draft& draft) {
    if (!leaves_format_open(session, recorded)) return plan_shapes(session, recorded, draft);
    Outcome outcome;
    std::optional<NoFit> exact;
    // The most exact first: the format changes the numerics, so a coarser one is taken only if the plan needs it.
    for (const StateFormat format : kStateFormats) {
        Draft choice = draft;
        choice.options.state_format = choice.numerics.state_format = format;
        choice.recipe = make_recipe(session.config.method, choice.options);
        outcome = plan_shapes(session, recorded, choice);
        if (auto* found = std::get_if<PlannedDraft>(&outcome)) {
            found->exact = std::move(exact);
            break;
        }
        if (!exact) exact = std::get<NoFit>(outcome);
    }
    if (auto* none = std::get_if<NoFit>(&outcome))  // of the format that was tried last
        none->needs += fmt::format(" (with state_format {})", state_format_name(*std::rbegin(kStateFormats)));
    return outcome;
}

// Weights move once for all directions of a step. While that is what a step waits for, twice as many cost little: they
// are taken as long as the step then has at least one and a half times as many a second.
constexpr double kNearlyFree = 1.5;

double directions_a_second(const PlannedDraft& plan) {
    return plan.draft.options.directions / plan.planned.mean_seconds;
}

// With twice as many directions; nothing where they do not fit, or cost too much.
std::optional<PlannedDraft> plan_twice_as_many(const Session& session, const std::optional<RunState>& recorded,
                                               const PlannedDraft& before) {
    Draft draft = before.draft;
    draft.options.directions *= 2;
    draft.recipe = make_recipe(session.config.method, draft.options);
    Outcome outcome = plan_formats(session, recorded, draft);
    if (std::holds_alternative<NoFit>(outcome)) return std::nullopt;
    auto& more = std::get<PlannedDraft>(outcome);
    if (directions_a_second(more) < kNearlyFree * directions_a_second(before)) return std::nullopt;
    return std::move(more);
}

bool has_room_for_twice(const MethodOptions& options) {
    const int window = options.moments == NoiseMoments::none ? 1 : options.replay_window;
    const int rank = options.noise == NoiseKind::low_rank ? options.noise_rank : 0;
    return 2 * options.directions <= kDirectionsMax &&
           (rank == 0 || is_room_for(2 * options.directions * window, rank));
}

Draft draft_of(const Session& session) {
    Draft draft{session.method_options, session.recipe, session.numerics(), session.request};
    draft.request.budgets.step_disk_writes = step_disk_writes(session);
    return draft;
}

// The same command gives other weights where there is more room: said with what the room was.
std::string note_of_format(StateFormat format, const NoFit& exact) {
    const std::string_view finest = state_format_name(kStateFormats[0]);
    return fmt::format(
        "state_format is {}, which changes the result: with {} the run needs at least {}, and allowed are {}. Try: "
        "--state-format {}, to be refused instead",
        state_format_name(format), finest, exact.needs, exact.allowed, finest);
}

// It changes the bits all the same: placement decides none of them, so nothing is refused.
std::string note_of_gradients_that_stay(GradientFormat format, const Planned& planned) {
    if (format == GradientFormat::f32) return "";
    for (const Schedule& schedule : planned.schedules.schedules) {
        for (const MoveTask& move : schedule.moves) {
            if (move.place == DiskPlace::gradient) return "";
        }
    }
    return fmt::format(
        "gradient_format is {}: gradients are rounded to it, but none crosses a link or goes to disk in this "
        "plan. Try: gradient_format: f32",
        gradient_format_name(format));
}

}  // namespace

int64_t steps_of(const RunSpec& session) {
    if (session.config.max_steps) return *session.config.max_steps;
    if (!session.data) return 0;
    const int64_t rows = session.data->training().rows_in_passes(session.config.num_train_epochs);
    return std::max<int64_t>(1, div_up(rows, session.examples_per_step()));
}

std::vector<std::pair<int64_t, int64_t>> micro_choices(const RunSpec& session,
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
    // How rows are cut decides the order of sums, and with it the bits of the run.
    if (recorded) return {{recorded->identity.numerics.micro_batch_size, recorded->identity.numerics.micro_batches}};
    std::vector<std::pair<int64_t, int64_t>> choices;
    const int64_t all = auto_rows(session);
    for (int64_t rows = all; rows >= 1; --rows) {
        // Divisors alone: all micro-batches of a step have the same shape, and one schedule serves them.
        if (all % rows == 0) choices.emplace_back(rows * rows_each, accumulation * (all / rows));
    }
    return choices;
}

PlanChoice choose_plan(const Session& session, const std::optional<RunState>& recorded) {
    const bool opens_format = leaves_format_open(session, recorded);
    const bool opens_directions = !session.config.directions && !recorded && session.recipe.probes();
    Activity planning("planning, choices evaluated", 0, {.has_own_line = true});
    Draft draft = draft_of(session);
    draft.request.should_stop = [&] { return planning.done(), false; };
    Outcome outcome = plan_formats(session, recorded, draft);
    if (auto* none = std::get_if<NoFit>(&outcome)) {
        name_limit(session.memory, *none);
        throw none->error();
    }
    auto& found = std::get<PlannedDraft>(outcome);
    while (opens_directions && has_room_for_twice(found.draft.options)) {
        std::optional<PlannedDraft> more = plan_twice_as_many(session, recorded, found);
        if (!more) break;
        found = std::move(*more);
    }
    PlanChoice chosen{.options = found.draft.options,
                      .recipe = std::move(found.draft.recipe),
                      .numerics = std::move(found.draft.numerics),
                      .request = std::move(found.draft.request),
                      .planned = std::move(found.planned)};
    chosen.request.should_stop = nullptr;
    if (opens_format && found.exact) chosen.notes.push_back(note_of_format(chosen.options.state_format, *found.exact));
    if (opens_directions && chosen.options.directions > 1)
        chosen.notes.push_back(
            fmt::format("directions is {}: most of a step, {}, is moving weights, once for all of them",
                        chosen.options.directions, format_seconds(chosen.planned.mean_seconds)));
    if (std::string note = note_of_gradients_that_stay(chosen.numerics.gradient_format, chosen.planned); !note.empty())
        chosen.notes.push_back(std::move(note));
    return chosen;
}

}  // namespace windlass
