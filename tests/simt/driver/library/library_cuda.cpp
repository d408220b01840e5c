#include "tests/simt/driver/library/library_cuda.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace windlass::products {
namespace {

// At the end of the process everything was given back, or its exit status says so.
struct Counts {
    std::atomic<int> calls{0}, multiplied{0}, live{0}, handles{0};
    ~Counts() {
        if (live + handles == 0) return;
        std::fprintf(stderr, "%d handles and %d others were not given back\n", handles.load(), live.load());
        ::_exit(1);
    }
};
Counts counts;
Control wanted_now;

cublasStatus_t called() {
    return ++counts.calls == wanted_now.failing_call ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t make(T** made) {
    const cublasStatus_t status = called();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    *made = new T{};
    ++counts.live;
    return status;
}

template <typename T>
cublasStatus_t give_back(T* made) {
    delete made;
    --counts.live;
    return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

void control(const Control& wanted) {
    wanted_now = wanted;
    counts.calls = 0;
    counts.multiplied = 0;
}
int calls() {
    return counts.calls;
}
int multiplied() {
    return counts.multiplied;
}
int live() {
    return counts.live;
}
int handles() {
    return counts.handles;
}

}  // namespace windlass::products

using windlass::products::called;
using windlass::products::counts;
using windlass::products::wanted_now;

extern "C" {

size_t cublasLtGetVersion() {
    return 130100;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    const cublasStatus_t status = called();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
    ++counts.handles;
    return status;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    if (wanted_now.during_destroy != nullptr) wanted_now.during_destroy();
    delete reinterpret_cast<int*>(handle);
    --counts.handles;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void* out, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t) {
    const cublasStatus_t status = called();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    ++counts.multiplied;
    if (wanted_now.during_matmul != nullptr) wanted_now.during_matmul(out);
    return status;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
    return windlass::products::make(made);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) {
    return windlass::products::give_back(made);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              size_t) {
    return called();
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType, uint64_t, uint64_t, int64_t) {
    return windlass::products::make(made);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) {
    return windlass::products::give_back(made);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
    return windlass::products::make(made);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) {
    return windlass::products::give_back(made);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
    return called();
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t found[],
                                              int* count) {
    const cublasStatus_t status = called();
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    found[0] = {};
    found[0].state = wanted_now.verdict;
    *count = 1;
    return status;
}

}  // extern "C"
