// loss_plot.h: the loss of a run as an SVG picture.
#pragma once

#include <string>
#include <vector>

#include "state/metrics.h"

namespace windlass {

// Positions of about `count` ticks over [low, high]: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> nice_ticks(double low, double high, int count);

// Training and evaluation loss over steps. Readable on light and on dark; points that are not finite leave a gap;
// long curves are thinned to what a screen shows. Empty curves give a picture that says so.
std::string loss_svg(const LossCurves& curves, const std::string& title);

}  // namespace windlass
