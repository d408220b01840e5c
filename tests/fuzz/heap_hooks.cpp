// Asks the sanitizer in this program.
#include <atomic>
#include <cstddef>

#include "tests/fuzz/heap.h"

extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                              void (*on_free)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* memory);
}

namespace {

std::atomic<int64_t> in_use, most, floor_bytes;

void on_malloc(const volatile void*, size_t bytes) {
    const int64_t now = in_use += static_cast<int64_t>(bytes);
    int64_t before = most;
    while (now > before && !most.compare_exchange_weak(before, now)) {
    }
}

void on_free(const volatile void* memory) {
    if (memory != nullptr) in_use -= static_cast<int64_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

namespace windlass {

void start_heap_count() {
    static const bool is_installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0;
    static_cast<void>(is_installed);
    floor_bytes = in_use.load();
    most = in_use.load();
}

int64_t most_heap_bytes() {
    return most - floor_bytes;
}

}  // namespace windlass
