// ratel_report.h: the paper's tables as simulated, printed, and what must hold of them.
#pragma once

#include "papers/ratel_rows.h"

namespace windlass {

// How each convention does on the fitted rows and on the others, with a latency of batches and without one.
void print_fits(const Machine& machine);
// The same where the GPU or the drives' socket is taken to be faster or slower than the profile says.
void print_fits_by_rate(const Machine& machine);
// Gives whether no predicted row is off by more than is wanted.
bool print_rows(const RatelFit& fit, const Machine& machine);
void print_not_simulated();

// Quantities that the paper or its readers give beside the tables.
struct CrossCheck {
    std::string_view what;
    std::string_view unit;
    double published = 0;
    double ours = 0;
    double tolerance = 0;  // relative; 0: ours comes of the model's own choices, and is held to nothing
    bool holds() const;
};
std::vector<CrossCheck> cross_checks(const RatelFit& fit, const Machine& machine);
// Gives whether all hold.
bool print_cross_checks(const RatelFit& fit, const Machine& machine);

}  // namespace windlass
