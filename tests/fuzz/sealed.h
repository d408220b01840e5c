// sealed.h: files whose lengths and checksums are right, whatever else is in them: a fuzzer would not find its way past
// a checksum.
//
// All are total: bytes that are nothing like the format come back as they are, or cut off where it says so.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// A safetensors file with this header. The data are zeros, as long as the largest "data_offsets" says, at most 1 MiB.
std::string sealed_safetensors(std::string_view header);

// The object with its checksum as its last member; text that is no object as it is.
std::string sealed_json(std::string_view object);

// gzip with one member that ends with the bytes: the sum and the size of its text are put in.
std::string sealed_gzip(std::string_view bytes);
// xz: the sums of the stream's header, of the first block's header, of the index and of the footer.
std::string sealed_xz(std::string_view bytes);

// The first part of a store's file, with this layout and two records, from byte 16 on (docs/format/store.md), tied to
// it; the rest is zeros. Empty for a layout that is refused, and for a file that would have more than 4 MiB.
std::string sealed_store(std::string_view layout, std::string_view record, std::string_view other_record);

// A trajectory log (docs/format/trajectory.md): the sums of its header, its mark and each record.
std::string sealed_log(std::string_view bytes);

// A token cache (docs/format/token_cache.md) with the key of `like`, a sound one: the sums of its rows, index and
// header.
std::string sealed_tokens(std::string_view bytes, std::string_view like);

}  // namespace windlass
