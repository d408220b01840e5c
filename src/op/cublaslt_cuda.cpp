// Products by cuBLASLt, which is looked for when the first is asked for: a program starts without it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "base/error.h"
#include "base/math.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/vendor_library.h"
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
        library_ = open_vendor_library(kLibrary);
        find(version, "cublasLtGetVersion");
        find(create, "cublasLtCreate");
        find(destroy, "cublasLtDestroy");
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
    decltype(&cublasLtDestroy) destroy;
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

// What the library makes, and takes back.
struct TakeBack {
    void operator()(std::remove_pointer_t<cublasLtHandle_t>* handle) const { library().destroy(handle); }
    void operator()(cublasLtMatmulDescOpaque_t* made) const { library().desc_destroy(made); }
    void operator()(cublasLtMatrixLayoutOpaque_t* made) const { library().layout_destroy(made); }
    void operator()(cublasLtMatmulPreferenceOpaque_t* made) const { library().preference_destroy(made); }
};
template <typename Pointer>
using Made = std::unique_ptr<std::remove_pointer_t<Pointer>, TakeBack>;

template <typename Pointer, typename... Args>
Made<Pointer> make(const char* name, cublasStatus_t (*create)(Pointer*, Args...), std::type_identity_t<Args>... args) {
    Pointer made = nullptr;
    require(create(&made, args...), name);
    return Made<Pointer>(made);
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
    Product(cublasLtHandle_t handle, const ProductShape& shape)
        : lib_(library()),
          handle_(handle),
          desc_(make("cublasLtMatmulDescCreate", lib_.desc_create, CUBLAS_COMPUTE_32F, CUDA_R_32F)),
          a_(layout(shape.type, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m,
                    shape.lda)),
          b_(layout(shape.type, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k,
                    shape.ldb)),
          c_(layout(shape.out, shape.n, shape.m, shape.ldc)) {
        set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (shape.has_bias) {
            set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(shape.out));
        }
        choose(shape);
    }

    void run(const GemmArgs& args, std::span<std::byte> workspace, CudaStreamHandle stream) {
        const float one = 1, kept = args.accumulate ? 1 : 0;
        if (!args.bias.empty()) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
        require(lib_.matmul(handle_, desc_.get(), &one, args.b.data, b_.get(), args.a.data, a_.get(), &kept,
                            args.c.data, c_.get(), args.c.data, c_.get(), &algorithm_, workspace.data(),
                            workspace.size(), reinterpret_cast<cudaStream_t>(stream)),
                "cublasLtMatmul");
    }

  private:
    template <typename T>
    void set(cublasLtMatmulDescAttributes_t attribute, T value) {
        require(lib_.desc_set(desc_.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
    }
    Made<cublasLtMatrixLayout_t> layout(DType dtype, int64_t rows, int64_t cols, int64_t stride) const {
        return make("cublasLtMatrixLayoutCreate", lib_.layout_create, type_of(dtype), static_cast<uint64_t>(rows),
                    static_cast<uint64_t>(cols), stride);
    }
    // The first choice of the library's heuristic, which may rely on the alignment that the rows' length promises. The
    // heuristic also reports whether its choice can run.
    void choose(const ProductShape& shape) {
        const Made<cublasLtMatmulPreference_t> preference =
            make("cublasLtMatmulPreferenceCreate", lib_.preference_create);
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
            require(lib_.preference_set(preference.get(), attribute, &value, sizeof value),
                    "cublasLtMatmulPreferenceSetAttribute");
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, shape.workspace);
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned(shape.ldb, shape.type));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned(shape.lda, shape.type));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned(shape.ldc, shape.out));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned(shape.ldc, shape.out));
        constexpr const char* kCall = "cublasLtMatmulAlgoGetHeuristic";
        cublasLtMatmulHeuristicResult_t found{};
        int count = 0;
        require(lib_.heuristic(handle_, desc_.get(), b_.get(), a_.get(), c_.get(), c_.get(), preference.get(), 1,
                               &found, &count),
                kCall);
        require(count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, kCall);
        algorithm_ = found.algo;
    }
    static uint32_t aligned(int64_t stride, DType dtype) {
        const auto bytes = static_cast<uint64_t>(stride * dtype_bytes(dtype));
        return static_cast<uint32_t>(std::min<uint64_t>(16, bytes & -bytes));
    }

    const Library& lib_;
    cublasLtHandle_t handle_;
    Made<cublasLtMatmulDesc_t> desc_;
    Made<cublasLtMatrixLayout_t> a_, b_, c_;
    cublasLtMatmulAlgo_t algorithm_{};
};

// The products of a device. Several threads may ask for them: each waits for the one before, and none for another
// device.
class DeviceProducts {
  public:
    explicit DeviceProducts(int device) : device_(device) {}
    DeviceProducts(const DeviceProducts&) = delete;
    ~DeviceProducts() {
        try {
            cuda_runtime().use_device(device_);  // the thread that ends the program has chosen none
        } catch (const Error&) {
        }
    }

    // By a thread that uses this device.
    void run(const GemmArgs& args, std::span<std::byte> scratch, CudaStreamHandle stream) {
        const std::span<std::byte> workspace = aligned_part(scratch);
        const ProductShape shape = shape_of(args, workspace.size());
        const std::lock_guard lock(mutex_);
        if (handle_ == nullptr) handle_ = make("cublasLtCreate", library().create);
        products_.try_emplace(shape, handle_.get(), shape).first->second.run(args, workspace, stream);
    }

  private:
    const int device_;
    std::mutex mutex_;
    Made<cublasLtHandle_t> handle_;
    std::map<ProductShape, Product> products_;
};

DeviceProducts& products_of(int device) {
    library();  // first: what it keeps ends after these
    static std::mutex mutex;
    static std::map<int, DeviceProducts> devices;
    const std::lock_guard lock(mutex);
    return devices.try_emplace(device, device).first->second;
}

}  // namespace

std::string product_path_cuda() {
    const size_t version = library().version();
    return fmt::format("cublasLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void gemm_cuda(const GemmArgs& args, std::span<std::byte> scratch, Stream& stream) {
    const CudaStreamHandle handle = cuda_handle(stream);
    products_of(cuda_runtime().use_device_of(handle)).run(args, scratch, handle);
}

}  // namespace windlass
