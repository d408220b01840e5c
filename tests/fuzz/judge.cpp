#include "tests/fuzz/judge.h"

#include <exception>

#include "base/error.h"
#include "tests/fuzz/heap.h"

namespace windlass {
namespace {

std::string fault_of(const Error& error) {
    const std::string_view text = error.what();
    if (error.code() == ExitCode::internal) return fmt::format("internal: {}", text);
    if (text.size() > kMessageMax) return fmt::format("a message of {} bytes: {}", text.size(), text.substr(0, 200));
    if (text.find(": ") == text.npos) return fmt::format("a message without a place: {}", text);
    return "";
}

}  // namespace

Verdict judge(const FuzzTarget& target, std::string_view input) {
    Verdict verdict;
    start_heap_count();
    try {
        target.read(input);
    } catch (const Error& error) {
        verdict.was_refused = true;
        verdict.said = error.what();
        verdict.finding = fault_of(error);
    } catch (const std::exception& other) {
        verdict.finding = fmt::format("another exception: {}", other.what());
    }
    verdict.heap_bytes = most_heap_bytes();
    if (verdict.finding.empty() && verdict.heap_bytes > kHeapMax && input.size() <= kInputMax)
        verdict.finding = fmt::format("{} MiB of memory", verdict.heap_bytes >> 20);
    return verdict;
}

}  // namespace windlass
