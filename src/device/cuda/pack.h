// pack.h: numbers in a row that a thread moves at once, where they lie at a multiple of their size. For .cu files
// alone.
#pragma once

namespace windlass {

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
    T numbers[kCount];
};

}  // namespace windlass
