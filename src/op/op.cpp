#include "op/op.h"

#include <algorithm>

namespace windlass {

DType dtype_of(ValueType type, DType compute) {
    return type == ValueType::compute ? compute : DType::f32;
}

int64_t factor_rank(const OpSize& size, const Shape& weight) {
    return weight.rank() == 2 ? std::min({size.rank, weight[0], weight[1]}) : 0;
}

bool same_op(const OpRecord& op, const OpSpec& one, const OpSpec& other) {
    WINDLASS_CHECK(op.same_attributes != nullptr || !one.attrs.has_value(), "{} does not compare its attributes",
                   op.name);
    return one.in == other.in && one.weights == other.weights && one.out == other.out && one.saved == other.saved &&
           (op.same_attributes == nullptr || op.same_attributes(one, other));
}

std::string to_string(const OpRecord& op, const OpSpec& spec) {
    const std::string attributes = op.describe != nullptr ? op.describe(spec) : "";
    return attributes.empty() ? std::string(op.name) : fmt::format("{} {}", op.name, attributes);
}

}  // namespace windlass
