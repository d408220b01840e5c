#include "method/lomo/lomo_cuda.h"

namespace windlass {

constinit const ParamCell kLomoCuda = nullptr;
constinit const ParamCell kAdalomoCuda = nullptr;

}  // namespace windlass
