// switches.h: what the address sanitizer is told of fibers: which stack is run on, and that one is used anew. Nothing
// where there is none: tests/simt is compiled once as released and once instrumented.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// The thread sanitizer takes all fibers of an operating system's thread for that thread: they cannot race, and one that
// knew each of them would be slower a hundred times. Functions that a fiber enters and never leaves are not counted.
#define WINDLASS_NEVER_LEFT __attribute__((no_sanitize_thread))

namespace windlass::simt {

struct StackRange {
    const void* bottom = nullptr;
    size_t bytes = 0;
};

// Around the jump to a stack and, behind it, back on one's own. ends: nobody jumps back.
class Switch {
  public:
    explicit Switch([[maybe_unused]] const StackRange& to, [[maybe_unused]] bool ends = false) {
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(ends ? nullptr : &mine_, to.bottom, to.bytes);
#endif
    }
    // from: where the jump that ended here came from.
    void is_back([[maybe_unused]] StackRange* from = nullptr) const {
        arrive(mine_, from);
    }
    // The first lines of a fiber.
    static void begins(StackRange* from) {
        arrive(nullptr, from);
    }

  private:
    static void arrive([[maybe_unused]] void* mine, [[maybe_unused]] StackRange* from) {
#if defined(__SANITIZE_ADDRESS__)
        StackRange found;
        __sanitizer_finish_switch_fiber(mine, &found.bottom, &found.bytes);
        if (from != nullptr) *from = found;
#endif
    }
    void* mine_ = nullptr;
};

// Frames that nobody returned from, from `from` to the end of the stack, are given up.
inline void forget_frames([[maybe_unused]] const void* from, [[maybe_unused]] const void* end) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(from,
                                  static_cast<size_t>(static_cast<const char*>(end) - static_cast<const char*>(from)));
#endif
}

}  // namespace windlass::simt
