// formulas.h: what the ops that work number by number compute, once for all devices.
//
// Forward takes the op's inputs; Backward what the op's backward reads, then grad_out; Tangent the inputs (unless the
// op is linear), then their tangents. first() and, of two outputs, second() make one number of theirs. `Math` gives
// exp, sigmoid, tanh and normal_cdf as the device has them. Its type is in an unnamed namespace, so that what is
// compiled for an instruction set stays in its object.
#pragma once

#include <cstdint>

#ifdef __device__  // nvcc, or the runtime that takes its place on the CPU
#define WINDLASS_FORMULA __device__ static
#else
#define WINDLASS_FORMULA static
#endif

namespace windlass {

// In the order of AllFormulas.
enum class Pointwise : uint8_t { add, relu, tanh, gelu_exact, gelu_tanh, silu_gate, gelu_gate };
inline constexpr int kPointwiseCount = 7;

template <typename Math>
struct AddFormulas {
    static constexpr const char* kName = "add";
    struct Forward {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float a, float b) { return a + b; }
    };
    struct Backward {
        static constexpr int kIn = 1, kOut = 2;
        WINDLASS_FORMULA float first(float grad) { return grad; }
        WINDLASS_FORMULA float second(float grad) { return grad; }
    };
    using Tangent = Forward;
};

template <typename Math>
struct ReluFormulas {
    static constexpr const char* kName = "relu";
    // A NaN passes: the comparison is written so that it fails for one.
    struct Forward {
        static constexpr int kIn = 1, kOut = 1;
        WINDLASS_FORMULA float first(float x) { return x <= 0.0f ? 0.0f : x; }
    };
    // sign: x or y, which are positive together; passing: what passes where they are
    struct Backward {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float sign, float passing) { return sign <= 0.0f ? 0.0f : passing; }
    };
    using Tangent = Backward;
};

template <typename Math>
struct TanhFormulas {
    static constexpr const char* kName = "tanh";
    struct Forward {
        static constexpr int kIn = 1, kOut = 1;
        WINDLASS_FORMULA float first(float x) { return Math::tanh(x); }
    };
    // dx = (1 - y^2) dy
    struct Backward {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float y, float grad) { return grad * (1.0f - y * y); }
    };
    // y' = (1 - tanh(x)^2) x'
    struct Tangent {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float x, float change) {
            const float t = Math::tanh(x);
            return change * (1.0f - t * t);
        }
    };
};

// y = x P(x), dy/dx = P(x) + x p(x), with the standard normal distribution P and its density p.
template <typename Math>
struct GeluExact {
    WINDLASS_FORMULA float value(float x) { return x * Math::normal_cdf(x, Math::exp(-0.5f * x * x)); }
    WINDLASS_FORMULA float slope(float x) {
        constexpr float kInverseRoot2Pi = 0.3989422804f;
        const float gauss = Math::exp(-0.5f * x * x);
        return Math::normal_cdf(x, gauss) + x * kInverseRoot2Pi * gauss;
    }
};

// y = x (1 + tanh v) / 2 = x s(2v) with the sigmoid s and v = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel,
// "Gaussian Error Linear Units"): the sigmoid form loses no digits where tanh v is near -1.
template <typename Math>
struct GeluTanh {
    static constexpr float kTwoRoot2OverPi = 1.5957691216f, kCubic = 0.044715f;
    WINDLASS_FORMULA float value(float x) { return x * Math::sigmoid(kTwoRoot2OverPi * (x + kCubic * x * x * x)); }
    WINDLASS_FORMULA float slope(float x) {
        const float s = Math::sigmoid(kTwoRoot2OverPi * (x + kCubic * x * x * x));
        return s + x * s * (1.0f - s) * kTwoRoot2OverPi * (1.0f + 3.0f * kCubic * x * x);
    }
};

// f(g) = g s(g) with the sigmoid s; df/dg = s + g s (1 - s)
template <typename Math>
struct Silu {
    WINDLASS_FORMULA float value(float x) { return x * Math::sigmoid(x); }
    WINDLASS_FORMULA float slope(float x) {
        const float s = Math::sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};

// y = f(x)
template <typename F>
struct FunctionFormulas {
    static constexpr const char* kName = "gelu";
    struct Forward {
        static constexpr int kIn = 1, kOut = 1;
        WINDLASS_FORMULA float first(float x) { return F::value(x); }
    };
    struct Backward {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float x, float factor) { return factor * F::slope(x); }
    };
    using Tangent = Backward;
};

// y = f(g) u with gate g and up u
template <typename F>
struct GateFormulas {
    static constexpr const char* kName = "swiglu";
    struct Forward {
        static constexpr int kIn = 2, kOut = 1;
        WINDLASS_FORMULA float first(float gate, float up) { return F::value(gate) * up; }
    };
    // dy/dg = u df/dg, dy/du = f
    struct Backward {
        static constexpr int kIn = 3, kOut = 2;
        WINDLASS_FORMULA float first(float gate, float up, float grad) { return grad * up * F::slope(gate); }
        WINDLASS_FORMULA float second(float gate, float, float grad) { return grad * F::value(gate); }
    };
    struct Tangent {
        static constexpr int kIn = 4, kOut = 1;
        WINDLASS_FORMULA float first(float gate, float up, float tangent_gate, float tangent_up) {
            return up * F::slope(gate) * tangent_gate + F::value(gate) * tangent_up;
        }
    };
};

// In the order of Pointwise.
template <typename... Formulas>
struct FormulaList {};
template <typename Math>
using AllFormulas =
    FormulaList<AddFormulas<Math>, ReluFormulas<Math>, TanhFormulas<Math>, FunctionFormulas<GeluExact<Math>>,
                FunctionFormulas<GeluTanh<Math>>, GateFormulas<Silu<Math>>, GateFormulas<GeluTanh<Math>>>;

}  // namespace windlass
