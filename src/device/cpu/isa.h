// isa.h: which instruction sets this process computes with.
//
// Detected once: the fastest that the machine has. The environment variable WINDLASS_CPU = baseline | avx2 | avx512 |
// avx512_bf16 chooses another one (asking for more than the machine has is an error), so that every kernel path can be
// tested on one machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace windlass {

enum class Isa : uint8_t { baseline, avx2, avx512, avx512_bf16 };

Isa cpu_isa();
std::string_view isa_name(Isa isa);
// What the process began with. Libraries that choose once for the whole process (oneDNN) choose by it.
Isa started_isa();
// Tests switch the path inside one process; not while kernels run. May not exceed what the machine has.
void set_cpu_isa(Isa isa);
Isa detected_isa();

// One kernel compiled for several instruction sets (files *_isa.cpp); pick() returns the widest allowed.
template <typename Fn>
struct IsaKernel {
    Fn* baseline;
    Fn* avx2;
    Fn* avx512;
    Fn* pick() const {
        const Isa isa = cpu_isa();
        return isa >= Isa::avx512 ? avx512 : isa == Isa::avx2 ? avx2 : baseline;
    }
};

}  // namespace windlass
