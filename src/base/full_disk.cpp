#include "base/full_disk.h"

#include <cerrno>

#include "base/log.h"

namespace windlass {

bool is_disk_full(const MachineError& error) {
    return error.error_number() == ENOSPC || error.error_number() == EDQUOT;
}

bool write_unless_full(const std::function<void()>& write) {
    try {
        write();
        return true;
    } catch (const MachineError& error) {
        if (!is_disk_full(error)) throw;
        log_warning("{}; the run continues without it", error.what());
        return false;
    }
}

}  // namespace windlass
