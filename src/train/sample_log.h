// sample_log.h: samples.jsonl: what the model made of sample_prompts, a line for each prompt and step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

struct Continuation {
    std::string prompt, text;
};

class SampleLog {
  public:
    // Continues after the lines of step `step`. Lines of later steps go, and that step's where not all are there.
    SampleLog(FileSystem& files, const std::string& path, int64_t step, int64_t prompts);

    // The last step that it holds; 0: none.
    int64_t last_step() const { return last_step_; }
    void write(int64_t step, const std::vector<Continuation>& samples);

  private:
    std::unique_ptr<File> file_;
    int64_t end_ = 0;
    int64_t last_step_ = 0;
};

}  // namespace windlass
