// sanitizer.h: whether the code under test is instrumented, so that tests may look at a sample of what is large.
//
// A question to the program that runs, not to the preprocessor: objects of tests are compiled once, and linked with
// floors as released and with instrumented ones.
#pragma once

namespace windlass {

/// The address sanitizer or the thread sanitizer.
bool is_sanitized();

/// The address sanitizer.
bool is_address_sanitized();

/// The second program of the same tests, over floors that are instrumented (the preset ci). What it leaves out runs in
/// the first, and whole under the preset asan.
bool is_second_run();

}  // namespace windlass
