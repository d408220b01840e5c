#include "op/op.h"

#include <algorithm>

namespace windlass {

DType dtype_of(ValueType type, DType compute) {
    return type == ValueType::compute ? compute : DType::f32;
}

int64_t factor_rank(const OpSize& size, const Shape& weight) {
    return weight.rank() == 2 ? std::min({size.rank, weight[0], weight[1]}) : 0;
}

std::string to_string(const OpRecord& op, const OpSpec& spec) {
    const std::string attributes = op.describe != nullptr ? op.describe(spec) : "";
    return attributes.empty() ? std::string(op.name) : fmt::format("{} {}", op.name, attributes);
}

}  // namespace windlass
