// heap.h: counts the bytes of the heap that are in use. One of heap_malloc.cpp (which replaces malloc), heap_hooks.cpp
// (which asks a sanitizer) and heap_uncounted.cpp is in each program.
//
// Threads: any. Memory that is mapped otherwise, as arenas are, is not counted.
#pragma once

#include <cstdint>

namespace windlass {

// From here on.
void start_heap_count();
// The most that was in use above what there was then.
int64_t most_heap_bytes();

}  // namespace windlass
