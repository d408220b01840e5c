// machine_text.h: a Machine as "key: value" lines that people edit; docs/format/machine.md is the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/machine.h"

namespace windlass {

inline constexpr int64_t kMachineTextMax = 64 * 1024;

// Every key that differs from an empty Machine's, in plain numbers: what was completed reads back as the same.
std::string machine_text(const Machine& machine);

// Numbers may carry units ("25 GB/s", "64 GiB", "165 TFLOP/s", "8 us"). completed() derives missing numbers from the
// rest. Throws UserError(usage) at "where:line": an unknown key (with the nearest one), a key given twice, a text that
// is no number or out of bounds, a missing key.
Machine parse_machine(std::string_view text, std::string_view where);

// In the order of the text.
std::vector<std::string_view> machine_keys();

}  // namespace windlass
