#include "format/base_checksum.h"

#include "base/activity.h"
#include "base/math.h"
#include "format/checksum.h"

namespace windlass {
namespace {

constexpr int64_t kReadBytes = int64_t{8} << 20;

void add_number(int64_t number, Xxh3Stream& sum) {
    sum.add(std::as_bytes(std::span(&number, 1)));
}

void add_text(std::string_view text, Xxh3Stream& sum) {
    add_number(std::ssize(text), sum);
    sum.add(bytes_of(text));
}

}  // namespace

std::string base_checksum(const ModelFolder& folder) {
    Xxh3Stream sum;
    std::vector<std::byte> buffer(kReadBytes);
    Activity reading("reading the base for its checksum", folder.total_bytes());
    for (const TensorPlace& tensor : folder.tensors()) {
        add_text(tensor.name, sum);
        add_text(tensor.dtype_name, sum);
        add_number(tensor.shape.rank(), sum);
        for (const int64_t extent : tensor.shape.dims()) add_number(extent, sum);
        add_number(tensor.bytes, sum);
        for (int64_t offset = 0; offset < tensor.bytes; offset += kReadBytes) {
            const auto bytes =
                std::span(buffer).first(static_cast<size_t>(std::min(kReadBytes, tensor.bytes - offset)));
            folder.read(tensor, offset, bytes);
            sum.add(bytes);
            reading.done(std::ssize(bytes));
        }
    }
    return fmt::format("{:016x}", sum.sum());
}

}  // namespace windlass
