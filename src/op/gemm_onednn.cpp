#include "op/gemm_onednn.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "device/cpu/isa.h"
#include "op/gemm_cuda.h"

// OpenMP's, which oneDNN uses. Its header comes with each compiler's own OpenMP; clang on Debian has none.
extern "C" void omp_set_num_threads(int count);

namespace windlass {
namespace {

// What decides which primitive is needed: everything but the addresses.
struct MatmulKey {
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    DType type, c_type, bias_type;
    bool transpose_a, transpose_b, accumulate, bias;

    bool operator==(const MatmulKey&) const = default;
};

struct MatmulKeyHash {
    size_t operator()(const MatmulKey& key) const {
        uint64_t hash = 0;
        const auto mix = [&hash](int64_t value) {
            hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        };
        for (const int64_t value : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) mix(value);
        mix(static_cast<int64_t>(key.type) | static_cast<int64_t>(key.c_type) << 8 |
            static_cast<int64_t>(key.bias_type) << 16 | int64_t{key.transpose_a} << 24 |
            int64_t{key.transpose_b} << 25 | int64_t{key.accumulate} << 26 | int64_t{key.bias} << 27);
        return hash;
    }
};

struct Matmul {
    dnnl::matmul primitive;
    dnnl::memory a, b, c, bias, scratch;
};

dnnl::memory::data_type onednn_type(DType dtype) {
    WINDLASS_CHECK(dtype == DType::f32 || dtype == DType::bf16, "no product of {}", dtype_name(dtype));
    return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// The most that oneDNN may use under a kernel path. It would otherwise take whatever a processor has, so that one path
// gave other bits on another machine. AMX stays within avx512_bf16: that path is chosen for the sake of AMX (isa.cpp),
// and bits of runs come from it. What of it a machine has says product_path().
dnnl::cpu_isa most_of(Isa isa) {
    switch (isa) {
        case Isa::baseline:
            return dnnl::cpu_isa::sse41;
        case Isa::avx2:
            return dnnl::cpu_isa::avx2;
        case Isa::avx512:
            return dnnl::cpu_isa::avx512_core;
        case Isa::avx512_bf16:
            break;
    }
    return dnnl::cpu_isa::avx512_core_amx;
}

// The engine of the process. oneDNN takes a limit once, before its first use: that of the path the process began with.
const dnnl::engine& engine() {
    static const dnnl::engine engine = [] {
        const auto status = dnnl::set_max_cpu_isa(most_of(started_isa()));
        WINDLASS_CHECK(status == dnnl::status::success, "oneDNN was used before its instruction set was limited");
        return dnnl::engine(dnnl::engine::kind::cpu, 0);
    }();
    return engine;
}

dnnl::cpu_isa product_isa() {
    engine();  // sets the limit
    return dnnl::get_effective_cpu_isa();
}

// The product c = a b, plus bias where there is one. oneDNN 3 has no descriptions of operations apart from those of
// primitives: the one difference between its versions that this program meets.
dnnl::matmul::primitive_desc describe(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                      const dnnl::memory::desc* bias, const dnnl::memory::desc& c,
                                      const dnnl::primitive_attr& attributes) {
    using Description = dnnl::matmul::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
    if (bias != nullptr) return Description(engine(), a, b, *bias, c, attributes);
    return Description(engine(), a, b, c, attributes);
#else
    using Product = dnnl::matmul::desc;
    return Description(bias != nullptr ? Product(a, b, *bias, c) : Product(a, b, c), attributes, engine());
#endif
}

// A thread's primitives, its stream, and the scratch that its products share.
class MatmulCache {
  public:
    // oneDNN parallelises with OpenMP, whose team size is a setting of each thread.
    MatmulCache() : stream_(engine()) { omp_set_num_threads(1); }

    void execute(const MatmulKey& key, const GemmArgs& args) {
        Matmul& matmul = find(key);
        matmul.a.set_data_handle(args.a.data);
        matmul.b.set_data_handle(args.b.data);
        matmul.c.set_data_handle(args.c.data);
        if (key.bias) matmul.bias.set_data_handle(args.bias.data);
        matmul.scratch.set_data_handle(scratch_.data());
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, matmul.a.get()},
                                             {DNNL_ARG_WEIGHTS, matmul.b.get()},
                                             {DNNL_ARG_DST, matmul.c.get()},
                                             {DNNL_ARG_SCRATCHPAD, matmul.scratch.get()},
                                             {DNNL_ARG_BIAS, matmul.bias.get(true)}};
        const auto status = dnnl_primitive_execute(matmul.primitive.get(), stream_.get(), key.bias ? 5 : 4, arguments);
        WINDLASS_CHECK(status == dnnl_success, "oneDNN product of {} x {} x {}: status {}", key.m, key.n, key.k,
                       static_cast<int>(status));
    }

  private:
    // Shapes of a training run are few; those of a long generation are bounded by this.
    static constexpr size_t kPrimitivesMax = 512;

    Matmul& find(const MatmulKey& key) {
        const auto found = matmuls_.find(key);
        if (found != matmuls_.end()) return found->second;
        if (matmuls_.size() >= kPrimitivesMax) matmuls_.clear();
        return matmuls_.emplace(key, make(key)).first->second;
    }

    Matmul make(const MatmulKey& key) {
        using dnnl::memory;
        const auto type = onednn_type(key.type);
        const auto view = [](int64_t rows, int64_t cols, int64_t stride, bool transposed, memory::data_type of) {
            return memory::desc({rows, cols}, of, transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
        };
        const auto a = view(key.m, key.k, key.a_stride, key.transpose_a, type);
        const auto b = view(key.k, key.n, key.b_stride, key.transpose_b, type);
        const auto c = view(key.m, key.n, key.c_stride, false, onednn_type(key.c_type));
        const auto bias = key.bias ? view(1, key.n, key.n, false, onednn_type(key.bias_type)) : memory::desc();
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        if (key.accumulate) {
            dnnl::post_ops add;
            add.append_sum(1.0f);
            attributes.set_post_ops(add);
        }
        const dnnl::matmul::primitive_desc primitive = describe(a, b, key.bias ? &bias : nullptr, c, attributes);
        const auto scratch = primitive.scratchpad_desc();
        const auto scratch_bytes = static_cast<int64_t>(scratch.get_size());
        if (scratch_bytes > scratch_.size()) scratch_ = HugeBuffer(scratch_bytes, false);
        const auto bind = [](const memory::desc& desc) { return memory(desc, engine(), nullptr); };
        return {dnnl::matmul(primitive), bind(a), bind(b), bind(c), key.bias ? bind(bias) : memory(), bind(scratch)};
    }

    dnnl::stream stream_;
    std::unordered_map<MatmulKey, Matmul, MatmulKeyHash> matmuls_;
    HugeBuffer scratch_;
};

}  // namespace

std::string product_path(DeviceKind device) {
    return device == DeviceKind::cuda ? product_path_cuda() : std::string(product_path());
}

std::string product_library(DeviceKind device) {
    if (device == DeviceKind::cuda) return "";
    const dnnl::version_t& version = *dnnl::version();
    return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

std::string_view product_path() {
    using Path = std::pair<dnnl::cpu_isa, std::string_view>;
    for (const auto& [isa, name] : {Path(dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"),
                                    {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
                                    {dnnl::cpu_isa::avx512_core, "avx512_core"},
                                    {dnnl::cpu_isa::avx2, "avx2"},
                                    {dnnl::cpu_isa::sse41, "sse41"}})
        if (isa == product_isa()) return name;
    return "other";
}

bool onednn_has(DType dtype) {
    static const bool multiplies_bf16 = [] {
        const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
        return (static_cast<unsigned>(product_isa()) & wanted) == wanted;
    }();
    return dtype == DType::f32 || (multiplies_bf16 && cpu_isa() == Isa::avx512_bf16);
}

namespace {

void multiply(const GemmArgs& args) {
    thread_local MatmulCache cache;
    const MatmulKey key{.m = args.c.shape[0],
                        .n = args.c.shape[1],
                        .k = args.a.shape[args.transpose_a ? 0 : 1],
                        .a_stride = args.a.row_stride,
                        .b_stride = args.b.row_stride,
                        .c_stride = args.c.row_stride,
                        .type = args.a.dtype,
                        .c_type = args.c.dtype,
                        .bias_type = args.bias.dtype,
                        .transpose_a = args.transpose_a,
                        .transpose_b = args.transpose_b,
                        .accumulate = args.accumulate,
                        .bias = !args.bias.empty()};
    cache.execute(key, args);
}

// A matrix of one column whose numbers do not lie side by side. oneDNN 3 (3.7.2) reads and writes them as if they did.
bool has_gaps(const Tensor& matrix) {
    return matrix.shape[1] == 1 && matrix.row_stride > 1 && matrix.shape[0] > 1;
}

// From row to row, whatever the strides.
void copy_column(const Tensor& from, const Tensor& to) {
    const int64_t bytes = dtype_bytes(from.dtype);
    for (int64_t row = 0; row < from.shape[0]; ++row)
        std::memcpy(to.as<std::byte>() + row * to.row_stride * bytes,
                    from.as<std::byte>() + row * from.row_stride * bytes, static_cast<size_t>(bytes));
}

// Without gaps, in `space`.
Tensor packed(const Tensor& column, std::vector<std::byte>& space) {
    if (!has_gaps(column)) return column;
    space.resize(std::max(space.size(), static_cast<size_t>(column.shape[0] * dtype_bytes(column.dtype))));
    const Tensor pack(column.dtype, column.shape, space.data());
    copy_column(column, pack);
    return pack;
}

}  // namespace

void onednn_matmul(const GemmArgs& args) {
    constexpr bool kKnowsColumns = DNNL_VERSION_MAJOR < 3;
    if (kKnowsColumns || !(has_gaps(args.a) || has_gaps(args.b) || has_gaps(args.c))) return multiply(args);
    thread_local std::array<std::vector<std::byte>, 3> space;
    GemmArgs without = args;
    without.a = packed(args.a, space[0]);
    without.b = packed(args.b, space[1]);
    without.c = packed(args.c, space[2]);
    multiply(without);
    if (has_gaps(args.c)) copy_column(without.c, args.c);
}

}  // namespace windlass
