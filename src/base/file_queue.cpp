#include "base/file_queue.h"

#include <cerrno>
#include <cstring>

#include "base/file_error.h"
#include "base/log.h"

namespace windlass {

FileResult transfer(const FileRequest& request, int64_t begin, int64_t end) {
    const auto part = request.buffer.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    try {
        if (request.verb == FileVerb::read) {
            request.file->read_at(part, request.offset + begin);
        } else {
            request.file->write_at(part, request.offset + begin);
        }
    } catch (const MachineError& error) {
        return {.tag = request.tag, .error_number = error.error_number(), .message = error.what()};
    } catch (const UserError& error) {  // the end of the file
        return {.tag = request.tag, .error_number = ENODATA, .message = error.what()};
    }
    return {.tag = request.tag};
}

FileResult failed_result(const FileRequest& request, std::string_view call, int error_number) {
    return {.tag = request.tag,
            .error_number = error_number,
            .message = file_error(call, request.file->path(), error_number).what()};
}

FileResult end_of_file_result(const FileRequest& request) {
    const UserError error = end_of_file_error(request.file->path(), request.file->size(), request.offset,
                                              static_cast<int64_t>(request.buffer.size()));
    return {.tag = request.tag, .error_number = ENODATA, .message = error.what()};
}

std::unique_ptr<FileQueue> make_file_queue(QueueKind kind, int depth) {
    WINDLASS_CHECK(depth > 0, "a queue of depth {}", depth);
    if (kind == QueueKind::pread) return make_pread_queue(depth);
    int error_number = 0;
    if (auto queue = make_uring_queue(depth, error_number)) return queue;
    if (kind == QueueKind::uring) {
        throw MachineError("io_uring_queue_init", "io_uring", error_number,
                           "Try: the pread queue, or allow io_uring (kernel.io_uring_disabled, container seccomp)");
    }
    log_info("io_uring is not available here ({}): disk transfers use threads", std::strerror(error_number));
    return make_pread_queue(depth);
}

}  // namespace windlass
