// config_fields.h: fields of peft's adapter_config.json, each within its bounds. UserError(model, where) names the
// field, what it is and what was expected. null and absence are the fallback.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace windlass {

inline constexpr int64_t kAdapterRankMax = 65536;
// Of sparse projectors: columns, and numbers of a row.
inline constexpr int64_t kProjectorWidthMax = 65535, kProjectorNumbersMax = 64;

int64_t integer_field(const Json& config, const char* name, int64_t fallback, int64_t min, int64_t max,
                      std::string_view where);
// Finite.
double number_field(const Json& config, const char* name, double fallback, std::string_view where);
bool flag_field(const Json& config, const char* name, std::string_view where);

// A value as a message shows it: no more than its beginning.
std::string shown(const Json& value);

}  // namespace windlass
