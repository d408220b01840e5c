#include "rows/stop_text.h"

#include <algorithm>
#include <utility>

namespace windlass {
namespace {

// The longest end of `text` with which `stop` begins.
size_t begun(std::string_view text, std::string_view stop) {
    for (size_t size = std::min(text.size(), stop.size()); size > 0; --size)
        if (text.ends_with(stop.substr(0, size))) return size;
    return 0;
}

}  // namespace

std::string StopText::push(std::string_view piece) {
    if (is_over_) return "";
    held_ += piece;
    size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
    if (end != std::string::npos) {
        is_over_ = true;
        held_.resize(end);
        return finish();
    }
    size_t kept = 0;
    for (const std::string& stop : stops_) kept = std::max(kept, begun(held_, stop));
    std::string certain = held_.substr(0, held_.size() - kept);
    held_.erase(0, certain.size());
    return certain;
}

std::string StopText::finish() {
    return std::exchange(held_, std::string());
}

}  // namespace windlass
