#include "device/cpu/isa.h"

#include <cpuid.h>
#include <immintrin.h>

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

// What __builtin_cpu_supports("amx-bf16") says, which clang 14 does not know: that the processor has it (CPUID leaf 7,
// EDX bit 22), and that the system saves tiles (XCR0 bits 17 and 18). Only asked where AVX-512 is, so XGETBV is there.
[[gnu::target("xsave")]] bool has_amx_bf16() {
    constexpr uint32_t kFeatureLeaf = 7, kAmxBf16 = uint32_t{1} << 22;
    constexpr uint64_t kTiles = uint64_t{3} << 17;
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(kFeatureLeaf, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmxBf16) == 0) return false;
    return (_xgetbv(0) & kTiles) == kTiles;
}

// Intel's processors multiply bf16 no faster than f32 unless they have tiles (AMX), and were measured at 0.57 of it;
// AMD's are twice as fast. By the maker, not by measuring: bits depend on the path.
Isa fastest() {
    const bool slow_bf16 = detected_isa() == Isa::avx512_bf16 && __builtin_cpu_is("intel") && !has_amx_bf16();
    return slow_bf16 ? Isa::avx512 : detected_isa();
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
    static std::atomic<Isa> isa{started_isa()};
    return isa;
}

}  // namespace

Isa detected_isa() {
    static const Isa isa = detect();
    return isa;
}

Isa started_isa() {
    static const Isa isa = from_environment();
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
