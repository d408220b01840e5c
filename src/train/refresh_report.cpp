#include "train/refresh_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/full_disk.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"

namespace windlass {
namespace {

double median(std::vector<double> values) {
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::ranges::nth_element(values, middle);
    return *middle;
}

Json entry_of(const TrainedModel& model, const RefreshedLayer& layer) {
    const ProjectorRefit& refit = layer.refit;
    const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    return {{"weight", model.params[static_cast<size_t>(layer.weight)].name},
            {"bias_before", number(refit.before)},
            {"bias_after", number(refit.after)},
            {"scale", number(std::sqrt(refit.scale))},
            {"iterations", refit.iterations},
            {"accepted", refit.accepted}};
}

}  // namespace

void report_refresh(FileSystem& files, const std::string& path, int64_t step, const TrainedModel& model,
                    const StepReport& report) {
    std::vector<double> before, after, scales;
    Json json = {{"step", step}, {"seconds", report.seconds}, {"layers", Json::array()}};
    int64_t accepted = 0;
    for (const RefreshedLayer& layer : report.refreshed) {
        json["layers"].push_back(entry_of(model, layer));
        before.push_back(layer.refit.before);
        after.push_back(layer.refit.accepted ? layer.refit.after : layer.refit.before);
        scales.push_back(std::sqrt(layer.refit.scale));
        accepted += layer.refit.accepted ? 1 : 0;
    }
    const bool is_kept = write_unless_full([&] { write_text_atomic(files, path, json.dump(1) + "\n"); });
    if (before.empty()) return;
    log_info(
        "refresh before step {}, {}: {} of {} layers have new projectors; relative bias {:.2f}, was {:.2f}, effective "
        "scale {:.2f} (medians){}",
        step, format_seconds(report.seconds), accepted, before.size(), median(after), median(before), median(scales),
        is_kept ? "; layer by layer in " + path : "");
}

}  // namespace windlass
