#include "tests/sanitizer.h"

namespace windlass {

bool is_address_sanitized() {
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return false;
#endif
}

bool is_second_run() {
#if defined(WINDLASS_SECOND_RUN)
    return true;
#else
    return false;
#endif
}

bool is_sanitized() {
#if defined(__SANITIZE_THREAD__)
    return true;
#else
    return is_address_sanitized();
#endif
}

}  // namespace windlass
