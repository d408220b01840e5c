#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/units.h"

namespace windlass {
namespace {

constexpr int64_t kHugePage = 2 * kMiB;
constexpr int64_t kSmallPage = 4 * kKiB;

UserError refused(int64_t bytes, int error_number) {
    return std::move(
        UserError(ExitCode::no_fit, "memory", "the system refused {} (errno {})", format_bytes(bytes), error_number)
            .hint("smaller budgets, or raise the limits on memory (ulimit -d, ulimit -v, the container)"));
}

// Address space without access costs nothing against RLIMIT_DATA, so the surplus that alignment needs is cut off
// before the limit is charged, exactly, by the change of protection.
std::byte* map_aligned(int64_t bytes) {
    const auto mapped = static_cast<size_t>(bytes);
    const size_t reserved = mapped + kHugePage;
    void* const raw = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) throw refused(bytes, errno);
    auto* const begin = static_cast<std::byte*>(raw);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t before = round_up<uintptr_t>(address, kHugePage) - address;
    const size_t after = reserved - before - mapped;
    std::byte* const data = begin + before;
    if (before > 0) ::munmap(begin, before);
    if (after > 0) ::munmap(data + mapped, after);
    if (::mprotect(data, mapped, PROT_READ | PROT_WRITE) != 0) {
        const int error = errno;
        ::munmap(data, mapped);
        throw refused(bytes, error);
    }
    return data;
}

// Gives every page a frame now. Kernels before 5.14 have no call for it: then one write a page.
int populate(std::byte* data, int64_t bytes) {
    if (::madvise(data, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL) return errno;
    for (int64_t at = 0; at < bytes; at += kSmallPage) static_cast<volatile std::byte*>(data)[at] = std::byte{0};
    return 0;
}

}  // namespace

HugeBuffer::HugeBuffer(int64_t bytes, bool touch) {
    WINDLASS_CHECK(bytes >= 0, "a buffer of {} bytes", bytes);
    if (bytes == 0) return;
    if (bytes > INT64_MAX / 2) throw refused(bytes, ENOMEM);
    const bool huge = bytes >= kHugePage;
    const int64_t mapped = round_up(bytes, huge ? kHugePage : kSmallPage);
    data_ = map_aligned(mapped);
    size_ = bytes;
    mapped_ = mapped;
    if (huge) ::madvise(data_, static_cast<size_t>(mapped), MADV_HUGEPAGE);  // a wish: small pages work as well
    if (!touch) return;
    const int error = populate(data_, mapped);
    if (error == 0) return;
    ::munmap(std::exchange(data_, nullptr), static_cast<size_t>(mapped));
    throw refused(bytes, error);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

HugeBuffer::~HugeBuffer() {
    if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(mapped_));
}

}  // namespace windlass
