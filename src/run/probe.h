// probe.h: measures a Machine: products, memory, and a drive through the same code that training uses.
#pragma once

#include <string>

#include "base/file.h"
#include "schedule/machine.h"

namespace windlass {

// A few seconds. `disk_folder` empty: the drive's rates stay zero. The probe's file is removed.
Machine probe_machine(FileSystem& files, const std::string& disk_folder, int threads);

// "name: value" lines that probe_machine's result is kept in; editable. parse throws UserError(usage, where).
std::string machine_text(const Machine& machine);
Machine parse_machine(std::string_view text, std::string_view where);

}  // namespace windlass
