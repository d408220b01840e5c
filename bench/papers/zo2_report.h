// zo2_report.h: tables of forward-only steps on one card, by simulation.
#pragma once

namespace windlass {

struct MemoryTable {
    bool each_step = false;  // updates are written back at every step; otherwise as seldom as the planner likes
    bool owners = false;     // only the sizes that have an aim of their own, with who takes the card's memory
};

// Memory of OPT 1.3B to 175B at 1 x 2048 tokens, f16 in the host's memory, computed in bf16, beside what ZO2 published.
// Whether every aim is met: the card's memory and the host's, and a step that is hardly slower for it.
bool print_memory(const MemoryTable& table);
// What several directions of a step share: directions a second over those of a step with one. Whether two and four are
// nearly free where the link is what a step waits for.
bool print_directions();

}  // namespace windlass
