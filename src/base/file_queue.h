// file_queue.h: what the queues of base/file.h share; for the .cpp files of this floor.
#pragma once

#include <memory>

#include "base/file.h"

namespace windlass {

// Nothing where the kernel refuses io_uring; `error_number` then says why.
std::unique_ptr<FileQueue> make_uring_queue(int depth, int& error_number);
std::unique_ptr<FileQueue> make_pread_queue(int depth);

// Runs one synchronous transfer of a request, or of its bytes [begin, end), and turns what it throws into a result.
FileResult transfer(const FileRequest& request, int64_t begin, int64_t end);

// The result of a request that failed with this errno, and of a read that met the end of the file (ENODATA).
FileResult failed_result(const FileRequest& request, std::string_view call, int error_number);
FileResult end_of_file_result(const FileRequest& request);

}  // namespace windlass
