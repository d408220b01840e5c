// standard_streams.h: stdout and stderr of a program that may lose their reader.
//
// A pipe whose reader is gone, a pipe that is not read, a terminal that hung up: a plain write ends the program
// (SIGPIPE), waits without end, or fails. A BoundedOutput waits for a given time and reports what was not written.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace windlass {

// Fills the places of descriptors 0, 1 and 2 that the program was started without ("2>&-"): else the first files that
// it opens would get these numbers, and messages would be written into them. What is read from or written to a
// placeholder fails with EBADF, as without it. To be called before anything is opened.
void hold_standard_descriptors();

// Not thread-safe. Does not change the flags of the descriptor, which other programs share.
class BoundedOutput {
  public:
    explicit BoundedOutput(int descriptor);
    ~BoundedOutput();
    BoundedOutput(const BoundedOutput&) = delete;
    BoundedOutput& operator=(const BoundedOutput&) = delete;

    struct Written {
        size_t bytes = 0;
        int error_number = 0;  // 0: all of it; EAGAIN: no reader took the rest in time
    };
    // SIGPIPE must be ignored.
    Written write(std::string_view text, std::chrono::milliseconds patience);

  private:
    enum class Kind { file, socket, own, shared };
    // As write(2), once, without waiting.
    std::ptrdiff_t put(std::string_view text) const;

    int descriptor_;
    Kind kind_ = Kind::file;
};

}  // namespace windlass
