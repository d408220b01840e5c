// A program of libFuzzer for one target, WINDLASS_FUZZ_READ.
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "tests/fuzz/judge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    using namespace windlass;
    constexpr FuzzTarget kTarget{.name = "one", .read = WINDLASS_FUZZ_READ};
    set_log_level(LogLevel::error);
    const Verdict verdict = judge(kTarget, {reinterpret_cast<const char*>(bytes), size});
    if (verdict.finding.empty()) return 0;
    std::fprintf(stderr, "finding: %s\n", verdict.finding.c_str());
    std::abort();
}
