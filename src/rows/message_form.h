// message_form.h: what a row gives in another form than its messages have it. Some templates need it as it was given.
#pragma once

#include <string>
#include <vector>

namespace windlass {

struct MessageForm {
    bool has_null_content = false;
    std::vector<std::string> call_texts;  // one for each call: its arguments, where they are text; else empty
};

}  // namespace windlass
