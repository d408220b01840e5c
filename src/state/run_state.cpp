#include "state/run_state.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "config/run_place.h"

namespace windlass {
namespace {

int64_t integer_at(const Json& json, const char* key) {
    return integer_of(json.at(key)).value();
}

BestStep read_best(const Json& json) {
    return {.metric = json.at("metric").get<std::string>(),
            .step = integer_at(json, "step"),
            .value = json.at("value").get<double>(),
            .misses = integer_at(json, "misses"),
            .judged = integer_at(json, "judged")};
}

Json best_json(const BestStep& best) {
    return {{"metric", best.metric},
            {"step", best.step},
            {"value", best.value},
            {"misses", best.misses},
            {"judged", best.judged}};
}

RunProgress read_progress(const Json& json) {
    RunProgress p{.step = integer_at(json, "step"),
                  .position = {integer_at(json, "epoch"), integer_at(json, "row")},
                  .tokens_total = integer_at(json, "tokens_total"),
                  .last_loss = json.at("last_loss").get<double>(),
                  .bad_steps = integer_at(json, "bad_steps"),
                  .phase_before = integer_at(json, "refreshed_before"),
                  .applied_steps = integer_at(json, "applied_steps"),
                  .clipped_steps = integer_at(json, "clipped_steps")};
    if (json.contains("best")) p.best = read_best(json["best"]);
    if (json.contains("metrics") && json["metrics"].is_object()) p.last_line = json["metrics"].dump();
    return p;
}

bool is_possible(const BestStep& best, int64_t step) {
    return best.step >= 0 && best.misses >= 0 && best.judged >= best.step && best.judged <= step &&
           std::isfinite(best.value);
}

bool is_possible(const RunProgress& p) {
    return p.step >= 0 && p.position.epoch >= 0 && p.position.row >= 0 && p.phase_before >= 0 && p.clipped_steps >= 0 &&
           p.clipped_steps <= p.applied_steps && is_possible(p.best, p.step);
}

}  // namespace

std::string run_state_text(const RunState& state) {
    const RunProgress& p = state.progress;
    Json json = {{"format", kRunFormat}, {"step", p.step}, {"epoch", p.position.epoch}, {"row", p.position.row}};
    write_identity(state.identity, json);
    json.update({{"tokens_total", p.tokens_total},
                 {"last_loss", std::isfinite(p.last_loss) ? p.last_loss : 0.0},
                 {"bad_steps", p.bad_steps},
                 {"applied_steps", p.applied_steps},
                 {"clipped_steps", p.clipped_steps},
                 {"refreshed_before", p.phase_before},
                 {"metrics", p.last_line.empty() ? Json() : parse_json(p.last_line, "metrics", ExitCode::internal)}});
    if (p.best.judged > 0) json["best"] = best_json(p.best);
    return json.dump();
}

RunState parse_run_state(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::storage);
    try {
        require_run_format(json.contains("format") ? integer_of(json["format"]) : std::nullopt, where);
        RunState state{read_identity(json), read_progress(json)};
        if (is_possible(state.progress)) return state;
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "not a run state: {}", excerpt(error.what()));
    } catch (const std::bad_optional_access&) {
    }
    throw UserError(ExitCode::storage, where,
                    "not a run state: it holds numbers that no run has, or a dtype or state format that is unknown");
}

}  // namespace windlass
