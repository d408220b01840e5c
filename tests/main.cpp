// main.cpp: main() of every test program.
#include <gmock/gmock.h>

#if defined(__SANITIZE_THREAD__)
// What the sanitizer cannot know. liburing maps and unmaps its rings by system calls that it does not see: a ring that
// comes to lie where another thread's was looks like that thread's memory. oneDNN, which is not instrumented, hands out
// descriptions from a cache that all threads share.
extern "C" const char* __tsan_default_suppressions() {
    return "race:io_uring_prep_rw\nrace:io_uring_sqe_set_data64\nrace:dnnl::memory::desc\n";
}
#endif

#if defined(WINDLASS_SECOND_RUN)
// A tenth of the time of what allocates often: four frames of where memory came from, and 16 MiB of freed memory that
// are watched. Set ASAN_OPTIONS for more. GCC 13 and newer would also give each thread of the emulated device a second
// stack, to find uses after return: up to 20 times the time, most of it in the kernel.
extern "C" const char* __asan_default_options() {
    return "malloc_context_size=4:quarantine_size_mb=16:detect_stack_use_after_return=0";
}
#endif

int main(int argc, char** argv) {
    testing::InitGoogleMock(&argc, argv);
    return RUN_ALL_TESTS();
}
