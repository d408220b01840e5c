// Products by cuBLASLt, which is looked for when the first is asked for: a program starts without it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/math.h"
#include "device/cuda/cuda_stream.h"
#include "op/gemm_cuda.h"

namespace windlass {
namespace {

#define WINDLASS_STRING(x) #x
#define WINDLASS_NUMBER(x) WINDLASS_STRING(x)
constexpr const char* kLibrary = "libcublasLt.so." WINDLASS_NUMBER(CUBLAS_VER_MAJOR);

void require(cublasStatus_t status, std::string_view call) {
    if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(call, status, "cuBLASLt");
}

// The functions of the library that are called.
struct Library {
    Library() {
        library_ = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr)
            throw UserError(ExitCode::gpu, "device", "{} is not found: {}", kLibrary, ::dlerror())
                .hint("LD_LIBRARY_PATH with the folder of CUDA's libraries, or of Python's nvidia-cublas");
        find(version, "cublasLtGetVersion");
        find(create, "cublasLtCreate");
        find(matmul, "cublasLtMatmul");
        find(desc_create, "cublasLtMatmulDescCreate");
        find(desc_destroy, "cublasLtMatmulDescDestroy");
        find(desc_set, "cublasLtMatmulDescSetAttribute");
        find(layout_create, "cublasLtMatrixLayoutCreate");
        find(layout_destroy, "cublasLtMatrixLayoutDestroy");
        find(preference_create, "cublasLtMatmulPreferenceCreate");
        find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
        find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
        find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    }

    decltype(&cublasLtGetVersion) version;
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulDescCreate) desc_create;
    decltype(&cublasLtMatmulDescDestroy) desc_destroy;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatrixLayoutCreate) layout_create;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;

  private:
    template <typename Function>
    void find(Function& function, const char* name) {
        function = reinterpret_cast<Function>(::dlsym(library_, name));
        if (function == nullptr)
            throw UserError(ExitCode::gpu, "device", "{} has no {}", kLibrary, name)
                .hint("the library of CUDA's toolkit");
    }
    void* library_ = nullptr;
};

const Library& library() {
    static const Library found;
    return found;
}

// A device's own, made by a thread that uses that device.
cublasLtHandle_t make_handle() {
    cublasLtHandle_t handle = nullptr;
    require(library().create(&handle), "cublasLtCreate");
    return handle;
}

cudaDataType_t type_of(DType dtype) {
    return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// The library's share of a workspace, which begins at a multiple of 256 bytes, as it needs: of a size that no address
// decides. Of none it gets none.
std::span<std::byte> aligned_part(std::span<std::byte> workspace) {
    constexpr size_t kAlignment = 256;
    if (workspace.size() <= kAlignment) return {};
    const auto begin = reinterpret_cast<uintptr_t>(workspace.data());
    return workspace.subspan(round_up<uintptr_t>(begin, kAlignment) - begin, workspace.size() - kAlignment);
}

// What decides the algorithm: no address.
struct ProductShape {
    int64_t m, n, k, lda, ldb, ldc;
    DType type, out;
    bool transpose_a, transpose_b, has_bias;
    size_t workspace;
    auto operator<=>(const ProductShape&) const = default;
};

ProductShape shape_of(const GemmArgs& args, size_t workspace) {
    return {.m = args.c.rows(),
            .n = args.c.cols(),
            .k = args.transpose_a ? args.a.rows() : args.a.cols(),
            .lda = args.a.row_stride,
            .ldb = args.b.row_stride,
            .ldc = args.c.row_stride,
            .type = args.a.dtype,
            .out = args.c.dtype,
            .transpose_a = args.transpose_a,
            .transpose_b = args.transpose_b,
            .has_bias = !args.bias.empty(),
            .workspace = workspace};
}

// Rows of numbers are columns to the library: it is asked for C^T = B^T A^T.
class Product {
  public:
    Product(cublasLtHandle_t handle, const ProductShape& shape) : lib_(library()), handle_(handle) {
        require(lib_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
        set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (shape.has_bias) {
            set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(shape.out));
        }
        make(b_, shape.type, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k, shape.ldb);
        make(a_, shape.type, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m, shape.lda);
        make(c_, shape.out, shape.n, shape.m, shape.ldc);
        choose(shape);
    }
    Product(const Product&) = delete;
    ~Product() {
        lib_.desc_destroy(desc_);
        for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) lib_.layout_destroy(layout);
    }

    void run(const GemmArgs& args, std::span<std::byte> workspace, CudaStreamHandle stream) {
        const float one = 1, kept = args.accumulate ? 1 : 0;
        if (!args.bias.empty()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
        require(
            lib_.matmul(handle_, desc_, &one, args.b.data, b_, args.a.data, a_, &kept, args.c.data, c_, args.c.data, c_,
                        &algorithm_, workspace.data(), workspace.size(), reinterpret_cast<cudaStream_t>(stream)),
            "cublasLtMatmul");
    }

  private:
    template <typename T>
    void set(cublasLtMatmulDescAttributes_t attribute, T value) {
        require(lib_.desc_set(desc_, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
    }
    void make(cublasLtMatrixLayout_t& layout, DType dtype, int64_t rows, int64_t cols, int64_t stride) {
        require(lib_.layout_create(&layout, type_of(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                                   stride),
                "cublasLtMatrixLayoutCreate");
    }
    // The first choice of the library's heuristic, which may rely on the alignment that the rows' length promises.
    void choose(const ProductShape& shape) {
        cublasLtMatmulPreference_t preference = nullptr;
        require(lib_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
            require(lib_.preference_set(preference, attribute, &value, sizeof value),
                    "cublasLtMatmulPreferenceSetAttribute");
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, shape.workspace);
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(shape.ldb, shape.type));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(shape.lda, shape.type));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned(shape.ldc, shape.out));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned(shape.ldc, shape.out));
        cublasLtMatmulHeuristicResult_t found{};
        int count = 0;
        const cublasStatus_t status = lib_.heuristic(handle_, desc_, b_, a_, c_, c_, preference, 1, &found, &count);
        lib_.preference_destroy(preference);
        require(count > 0 ? status : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
        algorithm_ = found.algo;
    }
    static uint32_t aligned(int64_t stride, DType dtype) {
        const auto bytes = static_cast<uint64_t>(stride * dtype_bytes(dtype));
        return static_cast<uint32_t>(std::min<uint64_t>(16, bytes & -bytes));
    }

    const Library& lib_;
    cublasLtHandle_t handle_;
    cublasLtMatmulDesc_t desc_ = nullptr;
    cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
    cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::string product_path_cuda() {
    const size_t version = library().version();
    return fmt::format("cublasLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void gemm_cuda(const GemmArgs& args, std::span<std::byte> scratch, Stream& stream) {
    struct OfDevice {
        cublasLtHandle_t handle = make_handle();
        std::map<ProductShape, Product> products;
    };
    static std::mutex mutex;
    static std::map<int, OfDevice> devices;
    const int device = cuda_runtime().use_device_of(cuda_handle(stream));
    const std::lock_guard lock(mutex);
    OfDevice& own = devices[device];
    const std::span<std::byte> workspace = aligned_part(scratch);
    const ProductShape shape = shape_of(args, workspace.size());
    own.products.try_emplace(shape, own.handle, shape).first->second.run(args, workspace, cuda_handle(stream));
}

}  // namespace windlass
