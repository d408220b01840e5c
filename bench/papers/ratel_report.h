// ratel_report.h: the paper's tables as simulated, printed, and what must hold of them.
#pragma once

#include "papers/ratel_rows.h"

namespace windlass {

// The best fit first; prints how each convention does on the fitted rows.
RatelFit print_fits(const Machine& machine);
// Gives the largest error of the predicted rows.
double print_rows(const RatelFit& fit, const Machine& machine);

// Quantities that the paper or its readers give beside the tables, as our arithmetic has them.
struct CrossCheck {
    std::string_view what;
    std::string_view unit;
    double published = 0;
    double ours = 0;
    double tolerance = 0;  // relative
    bool holds() const;
};
std::vector<CrossCheck> cross_checks(const Machine& machine);
// Gives whether all hold.
bool print_cross_checks(const Machine& machine);

}  // namespace windlass
