// stop_text.h: ends a text, as it comes, where a stop string begins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace windlass {

class StopText {
  public:
    explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}
    // What has become certain of the text with this piece after it: no stop string begins in it.
    std::string push(std::string_view piece);
    // What is held back when nothing more comes.
    std::string finish();
    bool is_over() const { return is_over_; }

  private:
    std::vector<std::string> stops_;
    std::string held_;
    bool is_over_ = false;
};

}  // namespace windlass
