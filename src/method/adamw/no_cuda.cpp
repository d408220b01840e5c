#include "method/adamw/adamw_cuda.h"

namespace windlass {

constinit const std::array<ParamCell, 3> kAdamwCuda = {};

}  // namespace windlass
