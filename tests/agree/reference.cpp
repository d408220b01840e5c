#include "tests/agree/reference.h"

#include "base/error.h"

namespace windlass::agree {
namespace {

struct Entry {
    std::string_view op;
    Matrix (*reference)(const Problem&);
};

constexpr std::array kReferences = {
    Entry{"embedding", reference_embedding},
    Entry{"linear", reference_linear},
    Entry{"rms_norm", reference_rms_norm},
    Entry{"layer_norm", reference_layer_norm},
    Entry{"rope", reference_rope},
    Entry{"attention", reference_attention},
    Entry{"swiglu", reference_swiglu},
    Entry{"gelu", reference_gelu},
    Entry{"relu", reference_relu},
    Entry{"tanh", reference_tanh},
    Entry{"add", reference_add},
    Entry{"scale", reference_scale},
    Entry{"magnitude", reference_magnitude},
    Entry{"sparse", reference_sparse},
    Entry{"cross_entropy", reference_cross_entropy},
    Entry{"preference", reference_preference},
};

}  // namespace

Matrix reference(std::string_view op, const Problem& problem) {
    for (const Entry& entry : kReferences) {
        if (entry.op == op) return entry.reference(problem);
    }
    WINDLASS_CHECK(false, "no reference for {}: write one", op);
    return {};
}

}  // namespace windlass::agree
