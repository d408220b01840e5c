// The runtime of a program that was built without CUDA.
#include "device/cuda/runtime.h"

namespace windlass {

CudaRuntime* find_cuda_runtime() {
    return nullptr;
}

std::string cuda_build() {
    return WINDLASS_WITHOUT_CUDA;  // why, as cmake/cuda.cmake found
}

}  // namespace windlass
