#include "method/state_format.h"

namespace windlass {

std::string_view state_format_name(StateFormat format) {
    switch (format) {
        case StateFormat::s1:
            return "s1";
        case StateFormat::s2:
            return "s2";
        case StateFormat::s3:
            return "s3";
    }
    return "?";
}

std::optional<StateFormat> state_format_from_name(std::string_view name) {
    for (const StateFormat format : kStateFormats) {
        if (state_format_name(format) == name) return format;
    }
    return std::nullopt;
}

std::string_view state_format_words(StateFormat format) {
    switch (format) {
        case StateFormat::s1:
            return "f32 moments";
        case StateFormat::s2:
            return "bf16 moments";
        case StateFormat::s3:
            return "8-bit moments";
    }
    return "?";
}

}  // namespace windlass
