// library_cuda.h: a library of cuBLASLt's name with the functions that src/op/cublaslt_cuda.cpp calls. It multiplies
// nothing, and counts what it made and was not given back. Threads: any; set while nothing is called.
#pragma once

#include <cublasLt.h>

namespace windlass::products {

struct Control {
    int failing_call = 0;                            // the n-th call from now on, from 1, fails; 0: none
    cublasStatus_t verdict = CUBLAS_STATUS_SUCCESS;  // of the heuristic on its choice
    void (*during_matmul)(void* out) = nullptr;
    void (*during_destroy)() = nullptr;  // of a handle
};
void control(const Control& wanted);
// Since control(): calls that may fail, and products.
int calls();
int multiplied();
// Descriptors, layouts and preferences, and handles, that were not given back.
int live();
int handles();

}  // namespace windlass::products
