#include "train/phase_report.h"

#include <cmath>

#include "base/full_disk.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"

namespace windlass {
namespace {

Json json_of(double value, Figure::Kind kind) {
    if (kind == Figure::Kind::flag) return value != 0;
    if (kind == Figure::Kind::count) return static_cast<int64_t>(value);
    return std::isfinite(value) ? Json(value) : Json();
}

Json entry_of(const Phase& phase, const TrainedModel& model, const GroupReport& report) {
    Json entry = {{"weight", model.params[static_cast<size_t>(report.param)].name}};
    for (size_t index = 0; index < phase.figures.size(); ++index)
        entry[std::string(phase.figures[index].name)] = json_of(report.figures[index], phase.figures[index].kind);
    return entry;
}

}  // namespace

void report_phase(FileSystem& files, const std::string& path, int64_t step, const Phase& phase,
                  const TrainedModel& model, const StepReport& report) {
    Json json = {{"step", step}, {"seconds", report.seconds}, {"layers", Json::array()}};
    for (const GroupReport& group : report.groups) json["layers"].push_back(entry_of(phase, model, group));
    const bool is_kept = write_unless_full([&] { write_text_atomic(files, path, json.dump(1) + "\n"); });
    if (report.groups.empty()) return;
    log_info("{} before step {}, {}: {}{}", phase.name, step, format_seconds(report.seconds),
             phase.summary(report.groups), is_kept ? "; layer by layer in " + path : "");
}

}  // namespace windlass
