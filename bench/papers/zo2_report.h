// zo2_report.h: tables of forward-only steps on one card, by simulation.
#pragma once

namespace windlass {

// Memory of OPT 1.3B to 175B at 1 x 2048 tokens, f16 in the host's memory, computed in bf16, beside what ZO2 published.
// Whether every aim is met.
bool print_memory(bool owners);
// What several directions of a step share: directions a second over those of a step with one.
void print_directions();

}  // namespace windlass
