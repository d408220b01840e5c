// Replaces malloc of glibc, which has no hooks any more, by itself with a counter.
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "tests/fuzz/heap.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace {

// More in one piece fails, as it would on a machine that is full: a fault must not take this one along.
constexpr size_t kPieceMax = size_t{2} << 30;

std::atomic<int64_t> in_use, most, floor_bytes;

int64_t bytes_in(void* memory) {
    return memory == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(memory));
}

void* counted(void* memory) {
    const int64_t now = in_use += bytes_in(memory);
    int64_t before = most;
    while (now > before && !most.compare_exchange_weak(before, now)) {
    }
    return memory;
}

void uncount(void* memory) {
    in_use -= bytes_in(memory);
}

bool is_too_much(size_t bytes) {
    if (bytes <= kPieceMax) return false;
    errno = ENOMEM;
    return true;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
    return is_too_much(bytes) ? nullptr : counted(__libc_malloc(bytes));
}

void free(void* memory) {
    uncount(memory);
    __libc_free(memory);
}

void* calloc(size_t count, size_t bytes) {
    size_t all = 0;
    if (__builtin_mul_overflow(count, bytes, &all) || is_too_much(all)) return nullptr;
    return counted(__libc_calloc(count, bytes));
}

void* realloc(void* memory, size_t bytes) {
    if (is_too_much(bytes)) return nullptr;
    const int64_t before = bytes_in(memory);
    void* const moved = __libc_realloc(memory, bytes);
    if (moved != nullptr || bytes == 0) in_use -= before;
    return counted(moved);
}

void* memalign(size_t alignment, size_t bytes) {
    return is_too_much(bytes) ? nullptr : counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void** into, size_t alignment, size_t bytes) {
    *into = memalign(alignment, bytes);
    return *into == nullptr ? ENOMEM : 0;
}
}

namespace windlass {

void start_heap_count() {
    floor_bytes = in_use.load();
    most = in_use.load();
}

int64_t most_heap_bytes() {
    return most - floor_bytes;
}

}  // namespace windlass
