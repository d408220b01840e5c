// tfevents.h: scalars in TensorBoard's event file format.
//
// A file is a list of records, each a length, a payload and their masked CRC32C; a payload is one protobuf Event,
// and the first names the version. Written by appending: a killed run leaves a readable file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

class EventWriter {
  public:
    // Makes "<folder>/events.out.tfevents.<seconds>.windlass", with ".1", ".2", ... after it if that name is taken.
    // wall_seconds: Unix time. first_step: readers drop what earlier files hold of this step and later ones, which a
    // resumed run trains again.
    EventWriter(FileSystem& files, const std::string& folder, double wall_seconds, int64_t first_step);
    EventWriter(EventWriter&&) = default;
    ~EventWriter();  // flushes; a failure is logged

    const std::string& path() const { return file_->path(); }
    void scalar(std::string_view tag, int64_t step, float value, double wall_seconds);
    void flush();  // hands what is buffered to the file system

  private:
    void append_record(std::string_view payload);

    std::unique_ptr<File> file_;
    std::string buffer_;
    int64_t written_ = 0;
};

}  // namespace windlass
