// run_names.h: the names of what a run writes into its folder. Overwriting removes these and nothing else.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

// Whether a run writes a file or folder of this name, which lies in its folder. Numbered names are ours as a whole
// ("export-12", never "export-notes.txt"); a numbered checkpoint only where it holds what checkpoints hold.
bool is_of_a_run(FileSystem& files, const std::string& run_folder, std::string_view name);

}  // namespace windlass
