#include "device/cpu/isa.h"

#include <atomic>
#include <cstdlib>

#include "base/error.h"

namespace windlass {
namespace {

Isa detect() {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::avx512_bf16;
    return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::baseline;
}

// Intel's processors multiply bf16 no faster than f32 unless they have tiles (AMX), and were measured at 0.57 of it;
// AMD's are twice as fast. By the maker, not by measuring: bits depend on the path.
Isa fastest() {
    const bool slow_bf16 = __builtin_cpu_is("intel") && !__builtin_cpu_supports("amx-bf16");
    return detected_isa() == Isa::avx512_bf16 && slow_bf16 ? Isa::avx512 : detected_isa();
}

Isa from_environment() {
    const char* wanted = std::getenv("WINDLASS_CPU");
    if (wanted == nullptr) return fastest();
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
        if (isa_name(isa) != wanted) continue;
        if (isa > detected_isa())
            throw UserError(ExitCode::usage, "WINDLASS_CPU", "this machine has {} at most, not {}",
                            isa_name(detected_isa()), wanted);
        return isa;
    }
    throw UserError(ExitCode::usage, "WINDLASS_CPU", "\"{}\" is not an instruction set", wanted)
        .hint("baseline, avx2, avx512 or avx512_bf16");
}

std::atomic<Isa>& current() {
    static std::atomic<Isa> isa{from_environment()};
    return isa;
}

}  // namespace

Isa detected_isa() {
    static const Isa isa = detect();
    return isa;
}

Isa cpu_isa() {
    return current().load(std::memory_order_relaxed);
}

void set_cpu_isa(Isa isa) {
    WINDLASS_CHECK(isa <= detected_isa(), "this machine has no {}", isa_name(isa));
    current().store(isa);
}

std::string_view isa_name(Isa isa) {
    switch (isa) {
        case Isa::baseline:
            return "baseline";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
        case Isa::avx512_bf16:
            return "avx512_bf16";
    }
    return "?";
}

}  // namespace windlass
