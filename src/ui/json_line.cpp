#include "ui/json_line.h"

#include "base/json.h"

namespace windlass {

std::string json_line(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace windlass
