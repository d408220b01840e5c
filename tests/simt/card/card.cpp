// Where tests for CUDA devices run on a card: nothing is emulated, and nothing is counted.
#include <limits>

#include "tests/simt/emulated.h"

namespace windlass::simt {

void emulate(const Emulation&) {}

int64_t calls() {
    return std::numeric_limits<int64_t>::max();
}

int64_t many() {
    return int64_t{1} << 24;
}

}  // namespace windlass::simt
