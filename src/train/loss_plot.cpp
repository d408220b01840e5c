#include "train/loss_plot.h"

#include <cmath>

#include "base/error.h"

namespace windlass {
namespace {

constexpr double kWidth = 860, kHeight = 420;
constexpr double kLeft = 64, kRight = 20, kTop = 44, kBottom = 46;
constexpr size_t kPointsMax = 1600;
// Middle tones: enough contrast on white and on near-black alike.
constexpr const char* kTrainColor = "#2f81c7";
constexpr const char* kEvalColor = "#d1742b";
constexpr const char* kInk = "#7a828c";
constexpr const char* kGrid = "#8b949e";

struct Frame {
    double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
    double x(double step) const { return kLeft + (step - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight); }
    double y(double value) const {
        return kHeight - kBottom - (value - y_low) / (y_high - y_low) * (kHeight - kTop - kBottom);
    }
};

std::string escape_xml(const std::string& text) {
    std::string safe;
    for (const char c : text) {
        switch (c) {
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '&':
                safe += "&amp;";
                break;
            case '"':
                safe += "&quot;";
                break;
            default:
                safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return safe;
}

std::string label(double x, double y, const char* anchor, const std::string& text, int size = 12) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor,
                       size, escape_xml(text));
}

std::string line(double x1, double y1, double x2, double y2, double opacity) {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-opacity=\"{}\"/>\n", x1, y1,
        x2, y2, kGrid, opacity);
}

// Bins of equal numbers of points, each drawn as its mean.
std::vector<CurvePoint> thin(const std::vector<CurvePoint>& curve) {
    if (curve.size() <= kPointsMax) return curve;
    std::vector<CurvePoint> result;
    for (size_t bin = 0; bin < kPointsMax; ++bin) {
        const size_t begin = bin * curve.size() / kPointsMax, end = (bin + 1) * curve.size() / kPointsMax;
        double sum = 0;
        for (size_t i = begin; i < end; ++i) sum += curve[i].value;
        result.push_back({curve[(begin + end) / 2].step, sum / static_cast<double>(end - begin)});
    }
    return result;
}

std::string polyline(const std::vector<CurvePoint>& curve, const Frame& frame, const char* color, bool dots) {
    std::string path, marks;
    bool pen_down = false;
    for (const CurvePoint& point : thin(curve)) {
        if (!std::isfinite(point.value)) {
            pen_down = false;
            continue;
        }
        const double x = frame.x(static_cast<double>(point.step)), y = frame.y(point.value);
        path += fmt::format("{}{:.1f} {:.1f} ", pen_down ? "L" : "M", x, y);
        pen_down = true;
        if (dots) marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, color);
    }
    if (path.empty()) return "";
    return fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"/>\n{}", path, color,
        marks);
}

Frame fit_frame(const LossCurves& curves) {
    double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
    for (const auto* curve : {&curves.train, &curves.eval}) {
        for (const CurvePoint& point : thin(*curve)) {
            if (!std::isfinite(point.value)) continue;
            const auto x = static_cast<double>(point.step);
            x_low = std::min(x_low, x), x_high = std::max(x_high, x);
            y_low = std::min(y_low, point.value), y_high = std::max(y_high, point.value);
        }
    }
    if (!(x_low <= x_high)) return {};
    if (x_low == x_high) x_low -= 1, x_high += 1;
    const double margin = std::max((y_high - y_low) * 0.06, std::max(std::abs(y_high), 1e-6) * 1e-3);
    return {x_low, x_high, y_low - margin, y_high + margin};
}

std::string axes(const Frame& frame) {
    std::string text;
    for (const double tick : nice_ticks(frame.y_low, frame.y_high, 6)) {
        text += line(kLeft, frame.y(tick), kWidth - kRight, frame.y(tick), 0.25);
        text += label(kLeft - 8, frame.y(tick) + 4, "end", fmt::format("{:.6g}", tick));
    }
    for (const double tick : nice_ticks(frame.x_low, frame.x_high, 8)) {
        if (tick != std::round(tick)) continue;  // there is no half step
        text += line(frame.x(tick), kHeight - kBottom, frame.x(tick), kHeight - kBottom + 5, 0.8);
        text += label(frame.x(tick), kHeight - kBottom + 19, "middle", fmt::format("{:.0f}", tick));
    }
    text += line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, 0.8);
    text += label((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "step");
    return text;
}

std::string legend(const LossCurves& curves) {
    std::string text;
    double right = kWidth - kRight;
    const auto entry = [&](const char* name, const char* color) {
        text += label(right, 28, "end", name);
        text += fmt::format("<rect x=\"{:.1f}\" y=\"22\" width=\"18\" height=\"4\" fill=\"{}\"/>\n", right - 92, color);
        right -= 116;
    };
    if (!curves.eval.empty()) entry("evaluation", kEvalColor);
    if (!curves.train.empty()) entry("training", kTrainColor);
    return text;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
    WINDLASS_CHECK(count > 0, "an axis has ticks");
    if (!(high > low) || !std::isfinite(high - low)) return {low};
    const double raw = (high - low) / count;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double share = raw / power;
    const double step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
    std::vector<double> ticks;
    for (double i = std::ceil(low / step); i * step <= high && ticks.size() < 100; ++i) ticks.push_back(i * step + 0.0);
    return ticks;
}

std::string loss_svg(const LossCurves& curves, const std::string& title) {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" fill=\"{}\" "
        "role=\"img\">\n",
        kWidth, kHeight, kInk);
    svg += fmt::format("<title>{}</title>\n", escape_xml(title));
    svg += label(kLeft, 28, "start", title, 15);
    if (curves.train.empty() && curves.eval.empty()) {
        return svg + label(kWidth / 2, kHeight / 2, "middle", "no steps yet") + "</svg>\n";
    }
    const Frame frame = fit_frame(curves);
    svg += axes(frame) + legend(curves);
    svg += polyline(curves.train, frame, kTrainColor, false);
    svg += polyline(curves.eval, frame, kEvalColor, curves.eval.size() <= 60);
    return svg + "</svg>\n";
}

}  // namespace windlass
