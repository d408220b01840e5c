#include "method/lomo/lomo_cuda.h"

namespace windlass {

constinit const UpdateKernel kLomoCuda = nullptr;
constinit const UpdateKernel kAdalomoCuda = nullptr;

}  // namespace windlass
