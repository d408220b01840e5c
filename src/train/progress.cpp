#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "base/activity.h"
#include "base/status_line.h"
#include "base/units.h"

namespace windlass {
namespace {

constexpr int kBarCellsMax = 40;
constexpr int kActivityColumns = 20;  // "  step 1234567: 34 %"

std::string rate(int64_t bytes, double seconds) {
    return seconds > 0 ? fmt::format("{:.2f}", static_cast<double>(bytes) / seconds * 1e-9) : "0";
}

std::string clock_text(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0) return "--:--:--";
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    return fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

TerminalStyle terminal_style(int descriptor) {
    TerminalStyle style;
    const char* term = std::getenv("TERM");
    style.interactive = isatty(descriptor) != 0 && term != nullptr && std::string_view(term) != "dumb";
    const char* no_color = std::getenv("NO_COLOR");
    style.color = style.interactive && (no_color == nullptr || no_color[0] == '\0');
    winsize size{};
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
    if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) > 0)
        style.columns = std::atoi(columns);
    style.columns = std::clamp(style.columns, 20, 500);
    return style;
}

std::string bottleneck(const std::array<double, kLaneKinds>& busy_seconds, double seconds) {
    if (seconds <= 0) return "";
    const auto busy = [&](LaneKind lane) { return busy_seconds[slot(lane)] / seconds; };
    LaneKind other = LaneKind::host;  // the busiest but for compute
    for (const LaneKind lane : {LaneKind::up, LaneKind::down, LaneKind::disk_read, LaneKind::disk_write})
        other = busy(lane) > busy(other) ? lane : other;
    if (busy(other) == 0) return "";
    const double compute = busy(LaneKind::compute), waited = std::max(0.0, 1.0 - compute);
    if (waited < 0.1) return fmt::format("compute-bound ({:.0f}% busy)", compute * 100);
    static constexpr std::array<std::string_view, kLaneKinds> kWords = {
        "", "the update", "the link up", "the link down", "the disk (reading)", "the disk (writing)"};
    return fmt::format("waits {:.0f}% for {}", waited * 100, kWords[slot(other)]);
}

std::string step_line(const StepMetrics& m, int64_t total_steps, const std::string& bottleneck_text) {
    std::string text = fmt::format("step {}/{}  epoch {:.2f}  loss {:.4f}  lr {:.3g}  gnorm {:.3g}{}", m.step,
                                   total_steps, m.epoch, m.loss, m.lr, m.grad_norm, m.clipped ? "*" : "");
    if (m.rewards) text += fmt::format("  margin {:.4f}  right {:.2f}", m.rewards->margin, m.rewards->accuracy);
    if (m.skipped) text += "  SKIPPED (not finite)";
    text += fmt::format("  {:.0f} tok/s", m.tokens_per_second());
    if (m.mfu > 0) text += fmt::format("  mfu {:.0f}%", m.mfu * 100);
    if (m.rounds > 0) text += fmt::format("  {} {}", m.rounds, m.rounds == 1 ? "round" : "rounds");
    text += fmt::format("  {} (plan {}{})  ram {}", format_seconds(m.step_seconds), format_seconds(m.predicted_seconds),
                        m.redone ? ", clipped: updates done again" : "", format_bytes(m.ram_bytes));
    if (m.disk_read_bytes + m.disk_write_bytes > 0)
        text += fmt::format("  disk r{} w{} GB/s", rate(m.disk_read_bytes, m.step_seconds),
                            rate(m.disk_write_bytes, m.step_seconds));
    if (!bottleneck_text.empty()) text += "  " + bottleneck_text;
    return text + fmt::format("  eta {}", clock_text(m.eta_seconds));
}

std::string bar_line(const StepMetrics& m, int64_t total_steps, int columns) {
    const std::string tail =
        fmt::format("  {}/{}  loss {:.4f}  eta {}", m.step, total_steps, m.loss, clock_text(m.eta_seconds));
    const int cells = std::clamp(columns - 3 - static_cast<int>(tail.size()), 0, kBarCellsMax);
    const double share =
        total_steps > 0 ? std::min(1.0, static_cast<double>(m.step) / static_cast<double>(total_steps)) : 0;
    const auto full = static_cast<size_t>(share * cells);
    std::string text = cells < 4 ? tail.substr(2)
                                 : fmt::format("[{}{}]{}", std::string(full, '#'),
                                               std::string(static_cast<size_t>(cells) - full, '-'), tail);
    if (std::ssize(text) >= columns) text.resize(static_cast<size_t>(columns - 1));
    return text;
}

void Progress::step(const StepMetrics& metrics) {
    if (!style_.interactive) return;
    const std::string text = bar_line(metrics, total_steps_, std::max(20, style_.columns - kActivityColumns));
    draw_status(text, style_.color);
    set_activity_head(text);
}

void Progress::clear() {
    set_activity_head("");
    if (style_.interactive) clear_status();
}

}  // namespace windlass
