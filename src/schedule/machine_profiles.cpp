#include "schedule/machine_profiles.h"

#include "schedule/machine_text.h"

namespace windlass {

Machine find_machine(FileSystem& files, const std::string& name_or_path) {
    return parse_machine(read_embedded(files, machine_profiles(), name_or_path, kMachineTextMax, "machine"),
                         name_or_path);
}

}  // namespace windlass
