#include "method/state_format.h"

namespace windlass {

std::string_view state_format_name(StateFormat format) {
    switch (format) {
        case StateFormat::fp32:
            return "fp32";
        case StateFormat::bf16:
            return "bf16";
        case StateFormat::int8:
            return "int8";
    }
    return "?";
}

std::optional<StateFormat> state_format_from_name(std::string_view name) {
    for (const StateFormat format : kStateFormats) {
        if (state_format_name(format) == name) return format;
    }
    return std::nullopt;
}

}  // namespace windlass
