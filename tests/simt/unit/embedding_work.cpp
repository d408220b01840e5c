// The kernels of embedding once more, under another name: CMake has the compiler count each piece of straight code of
// this file that is run (embedding_test.cpp).
#define embedding_kernels counted_embedding_kernels
#define launch_embedding_forward counted_embedding_forward
#define launch_embedding_backward counted_embedding_backward
#define launch_embedding_tangent counted_embedding_tangent
#include "tests/simt/language.h"

#include "op/embedding_cuda.cu"
