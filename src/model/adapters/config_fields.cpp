#include "model/adapters/config_fields.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr const char* kSaved = "an adapter that peft has saved";

// null where it is not there.
Json field(const Json& config, const char* name) {
    const auto found = config.find(name);
    return found == config.end() ? Json() : *found;
}

}  // namespace

std::string shown(const Json& value) {
    return excerpt(value.dump());
}

int64_t integer_field(const Json& config, const char* name, int64_t fallback, int64_t min, int64_t max,
                      std::string_view where) {
    const Json value = field(config, name);
    if (value.is_null()) return fallback;
    const std::optional<int64_t> integer = integer_of(value);
    if (!integer || *integer < min || *integer > max)
        throw UserError(ExitCode::model, where, "\"{}\" is {}, expected an integer from {} to {}", name, shown(value),
                        min, max)
            .hint(kSaved);
    return *integer;
}

double number_field(const Json& config, const char* name, double fallback, std::string_view where) {
    const Json value = field(config, name);
    if (value.is_null()) return fallback;
    if (!value.is_number() || !std::isfinite(value.get<double>()))
        throw UserError(ExitCode::model, where, "\"{}\" is {}, expected a finite number", name, shown(value))
            .hint(kSaved);
    return value.get<double>();
}

bool flag_field(const Json& config, const char* name, std::string_view where) {
    const Json value = field(config, name);
    if (value.is_null()) return false;
    if (!value.is_boolean())
        throw UserError(ExitCode::model, where, "\"{}\" is {}, expected true or false", name, shown(value))
            .hint(kSaved);
    return value.get<bool>();
}

}  // namespace windlass
