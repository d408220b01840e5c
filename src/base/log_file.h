// log_file.h: a file that has every line of the log too, those from before it was opened included.
#pragma once

#include <string_view>

namespace windlass {

// Lines are kept from here on (the first 64 KiB) until there is a file, and written there until this ends. One at a
// time in a process: lines do not say whose they are.
class LogFile {
  public:
    LogFile();
    ~LogFile() { close(); }
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;

    // Appends to the file. Once. Throws MachineError.
    void open(std::string_view path);
    void close();

  private:
    bool is_over_ = false;
};

}  // namespace windlass
