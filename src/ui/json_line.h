// json_line.h: JSON on one line.
#pragma once

#include <string>

#include "base/json_fwd.h"

namespace windlass {

// Without an end of line. Texts of files may be anything: bytes that are no UTF-8 are replaced.
std::string json_line(const Json& json);

}  // namespace windlass
