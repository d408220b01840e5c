// The runtime of a program that was built without CUDA.
#include "device/cuda/runtime.h"

namespace windlass {

CudaRuntime* find_cuda_runtime() {
    return nullptr;
}

}  // namespace windlass
