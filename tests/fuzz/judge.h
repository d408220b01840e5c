// judge.h: whether a reader took an input as it must.
//
// A finding is: an exception that is not an Error of ours, one with the code ExitCode::internal, a message without a
// place or of more than kMessageMax bytes, or more live memory than kHeapMax above what there was before. What ends the
// process (a failed check, a sanitizer's report) is seen by the program that started it; what takes long, by the loop
// (loop.h): no test measures time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace windlass {

inline constexpr int64_t kHeapMax = int64_t{256} << 20;  // bytes, for an input of up to kInputMax
inline constexpr size_t kInputMax = size_t{1} << 20;
inline constexpr size_t kMessageMax = 8192;

struct Verdict {
    std::string finding;  // empty: there is none
    bool was_refused = false;
    std::string said = {};   // by the refusal
    int64_t heap_bytes = 0;  // at most, above what there was before; 0 where it is not counted
};
Verdict judge(const FuzzTarget& target, std::string_view input);

}  // namespace windlass
