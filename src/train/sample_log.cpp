#include "train/sample_log.h"

#include "base/error.h"
#include "base/file_error.h"
#include "base/json.h"

namespace windlass {
namespace {

constexpr int64_t kFileMax = int64_t{1} << 32;

// Of a line that is whole, or -1.
int64_t step_of_line(std::string_view line) {
    const Json json = Json::parse(line, nullptr, false);
    return json.is_object() && json.contains("step") ? integer_of(json["step"]).value_or(-1) : -1;
}

}  // namespace

SampleLog::SampleLog(FileSystem& files, const std::string& path, int64_t step, int64_t prompts) {
    const std::string text = files.exists(path) ? read_text(files, path, kFileMax) : "";
    int64_t of_last = 0;  // lines of the step that the run resumes after
    for (size_t begin = 0, line_end; (line_end = text.find('\n', begin)) != std::string::npos; begin = line_end + 1) {
        const int64_t found = step_of_line(std::string_view(text).substr(begin, line_end - begin));
        if (found < last_step_ || found > step) break;
        if (found == step && ++of_last < prompts) continue;
        last_step_ = found;
        end_ = static_cast<int64_t>(line_end) + 1;
    }
    file_ = files.open(path, {files.exists(path) ? OpenMode::update : OpenMode::create});
    file_->truncate(end_);
    files.sync_folder(parent_folder(path));
}

void SampleLog::write(int64_t step, const std::vector<Continuation>& samples) {
    std::string lines;
    for (const Continuation& sample : samples)
        lines += Json({{"step", step}, {"prompt", sample.prompt}, {"text", sample.text}})
                     .dump(-1, ' ', false, Json::error_handler_t::replace) +
                 "\n";
    file_->write_at(std::as_bytes(std::span(lines)), end_);
    file_->sync();
    end_ += std::ssize(lines);
    last_step_ = step;
}

}  // namespace windlass
