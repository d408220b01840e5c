#include "op/op.h"

namespace windlass {

DType dtype_of(ValueType type, DType compute) {
    return type == ValueType::compute ? compute : DType::f32;
}

std::string to_string(const OpRecord& op, const OpSpec& spec) {
    const std::string attributes = op.describe != nullptr ? op.describe(spec) : "";
    return attributes.empty() ? std::string(op.name) : fmt::format("{} {}", op.name, attributes);
}

}  // namespace windlass
