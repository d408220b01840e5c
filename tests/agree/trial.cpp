#include "tests/agree/trial.h"

#include <gtest/gtest.h>

#include "tests/sanitizer.h"

namespace windlass::agree {
namespace {

constexpr double kLossScale = 0.125;
constexpr int64_t kGap = 3;  // odd: rows lose their alignment

Shape matrix_shape(const Shape& shape) {
    return shape.rank() == 1 ? Shape{1, shape[0]} : shape;
}

std::vector<Matrix> matrices(const std::vector<Value>& values) {
    std::vector<Matrix> list;
    for (const Value& value : values) list.push_back(value.matrix());
    return list;
}

// Devices of which the kernels are tried.
std::vector<DeviceKind> devices() {
    const CudaRuntime* const cuda = usable_cuda();
    if (cuda == nullptr) return {DeviceKind::cpu};
    if (cuda->name() == "emulated") return {DeviceKind::cuda};  // another program tries the CPU's
    return {DeviceKind::cpu, DeviceKind::cuda};
}

}  // namespace

Value::Value(DType dtype, Shape shape, int64_t gap)
    : memory_((shape.numel() + (shape.rank() == 2 ? shape[0] * gap : 0)) * dtype_bytes(dtype)),
      tensor_(dtype, shape, memory_.data()) {
    if (shape.rank() == 2) tensor_.row_stride += gap;
}

template <typename Visit>
void Value::for_elements(Visit visit) const {
    const auto count = static_cast<size_t>(tensor_.numel()), cols = static_cast<size_t>(tensor_.cols());
    for (size_t i = 0, row = 0; i < count; ++row) {
        const size_t begin = row * static_cast<size_t>(tensor_.row_stride);
        for (size_t col = 0; col < cols; ++col) visit(i++, begin + col);
    }
}

void Value::set(const Matrix& matrix) {
    WINDLASS_CHECK(static_cast<int64_t>(matrix.numbers.size()) == tensor_.numel(), "{}", tensor_.shape.to_string());
    const double* const numbers = matrix.numbers.data();
    if (tensor_.dtype == DType::f32)
        for_elements(
            [numbers, to = tensor_.as<float>()](size_t i, size_t at) { to[at] = static_cast<float>(numbers[i]); });
    if (tensor_.dtype == DType::bf16)
        for_elements([numbers, to = tensor_.as<bf16>()](size_t i, size_t at) {
            to[at] = to_bf16(static_cast<float>(numbers[i]));
        });
}

Matrix Value::matrix() const {
    const Shape shape = matrix_shape(tensor_.shape);
    Matrix matrix(shape[0], shape[1]);
    double* const numbers = matrix.numbers.data();
    if (tensor_.dtype == DType::f32)
        for_elements([numbers, from = tensor_.as<float>()](size_t i, size_t at) { numbers[i] = from[at]; });
    else
        for_elements([numbers, from = tensor_.as<bf16>()](size_t i, size_t at) { numbers[i] = to_float(from[at]); });
    return matrix;
}

bool Value::intact() const {
    const auto untouched = [](std::byte byte) { return byte == Guarded::kFresh; };
    const int64_t row_bytes = tensor_.cols() * dtype_bytes(tensor_.dtype);
    const int64_t stride_bytes = tensor_.row_stride * dtype_bytes(tensor_.dtype);
    for (int64_t row = 0; row < tensor_.rows(); ++row) {
        const auto* begin = tensor_.as<std::byte>() + row * stride_bytes;
        if (!std::all_of(begin + row_bytes, begin + stride_bytes, untouched)) return false;
    }
    return memory_.intact();
}

std::string Setting::name() const {
    return fmt::format("{}{}_{}_{}{}{}{}", device == DeviceKind::cpu ? "" : "cuda_", op->name, op_case.name,
                       dtype_name(compute), split ? "_split" : "", gaps ? "_gaps" : "",
                       rank > 0 ? fmt::format("_rank_{}", rank) : "");
}

void PrintTo(const Setting& setting, std::ostream* out) {
    *out << setting.name();
}

std::vector<Setting> all_settings() {
    std::vector<Setting> settings;
    for (const OpRecord* op : all_ops()) {
        for (const OpCase& op_case : op->cases()) {
            for (const DType compute : {DType::f32, DType::bf16}) {
                settings.push_back({op, op_case, compute});
                settings.push_back({op, op_case, compute, false, true});
                if (op_case.spec.weights.empty()) continue;
                settings.push_back({op, op_case, compute, true});
                if (op_case.spec.weights[0].rank() != 2 || op->first_constant_weight == 0) continue;
                const bool is_narrow = compute == DType::bf16;  // one of the ranks each, and one of them with gaps
                settings.push_back({op, op_case, compute, false, is_narrow, is_narrow ? 2 : 3});
            }
        }
    }
    std::vector<Setting> everywhere;
    for (const DeviceKind device : devices())
        for (Setting setting : settings) {
            setting.device = device;
            everywhere.push_back(setting);
        }
    return everywhere;
}

std::vector<Setting> some_settings() {
    std::vector<Setting> settings = all_settings();
    const size_t one_of = usable_cuda() == nullptr || usable_cuda()->name() != "emulated" ? 1 : is_sanitized() ? 19 : 5;
    size_t index = 0;
    std::erase_if(settings, [&](const Setting&) { return index++ % one_of > 0; });
    return settings;
}

Trial::Trial(const Setting& setting)
    : op_(setting.op),
      spec_(setting.op_case.spec),
      compute_(setting.compute),
      device_(setting.device),
      split_(setting.split),
      gap_(setting.gaps ? kGap : 0),
      rank_(setting.rank),
      scale_(setting.op_case.weight_scale) {
    op_->infer(spec_);
    head_.loss_scale = kLossScale;
    make_batch(setting.op_case);
    in_ = values(spec_.in, gap_);
    grad_out_ = values(spec_.out, gap_);
    prior_in_ = values(spec_.in, gap_);
    for (auto* list : {&in_, &grad_out_, &prior_in_}) {
        for (Value& value : *list) randomize(value);
    }
    keep_off_zero();
    if (setting.op_case.positive) make_positive();
    make_weights();
    for (int d = 0; d < kDirections; ++d) {
        tangent_in_.push_back(values(spec_.in, gap_));
        for (Value& tangent : tangent_in_.back()) randomize(tangent);
        make_directions();
    }
    if (!op_->backward_computes_out) return;
    Matrix scale = grad_out_[0].matrix();
    std::fill(scale.numbers.begin(), scale.numbers.end(), kLossScale);
    grad_out_[0].set(scale);
}

// Documents of random lengths, the last of each row padding; or one document a row.
void Trial::make_batch(const OpCase& op_case) {
    const uint64_t ids = spec_.weights.empty() ? 100 : static_cast<uint64_t>(spec_.weights[0][0]);
    const auto length_max = static_cast<uint64_t>(std::max<int64_t>(1, op_case.sequence_length / 2));
    for (int64_t row = 0; row < op_case.rows; ++row) {
        for (int64_t begin = 0; begin < op_case.sequence_length;) {
            const int64_t left = op_case.sequence_length - begin;
            const int64_t drawn = 1 + static_cast<int64_t>(rng_.below(length_max));
            const int64_t length = op_case.documents ? std::min(left, drawn) : left;
            const bool padding = op_case.documents && begin > 0 && length == left;
            for (int64_t position = 0; position < length; ++position) {
                const bool untold = padding || position == length - 1;
                tokens_.push_back(static_cast<int32_t>(rng_.below(ids)));
                positions_.push_back(static_cast<int32_t>(position));
                doc_start_.push_back(static_cast<int32_t>(begin));
                targets_.push_back(untold ? kIgnored : static_cast<int32_t>(rng_.below(ids)));
            }
            begin += length;
        }
    }
    batch_ = {op_case.rows,      op_case.sequence_length, tokens_.data(),
              positions_.data(), doc_start_.data(),       targets_.data()};
    if (!op_case.prompts) return;
    // The first half of each row is its prompt; of every second row nothing, as of answers that are not preferred.
    for (int64_t row = 0; row < op_case.rows; ++row)
        answers_.push_back(row % 2 == 0 ? static_cast<int32_t>(op_case.sequence_length / 2) : 0);
    batch_.answers = answers_.data();
}

// Inputs at least 2^-10 from zero: a small step from them crosses no kink (relu).
void Trial::keep_off_zero() {
    for (Value& value : in_) {
        Matrix matrix = value.matrix();
        for (double& number : matrix.numbers) number = std::copysign(std::max(std::abs(number), 0x1p-10), number);
        value.set(matrix);
    }
}

void Trial::make_positive() {
    for (Value& value : in_) {
        Matrix matrix = value.matrix();
        for (double& number : matrix.numbers) number = std::abs(number);
        value.set(matrix);
    }
}

void Trial::make_weights() {
    for (const Shape& shape : spec_.weights) {
        randomize(prior_weights_.emplace_back(DType::f32, shape));
        Value master(DType::f32, shape);
        randomize(master);
        Value& base = base_.emplace_back(split_ ? DType::bf16 : compute_, shape);
        Value& low = low_.emplace_back(DType::i16, shape);
        base.set(master.matrix());
        for (int64_t i = 0; split_ && i < shape.numel(); ++i) {
            const Split halves = split_master(master.tensor().as<uint32_t>()[i]);
            base.tensor().as<uint16_t>()[i] = halves.hi;
            low.tensor().as<int16_t>()[i] = halves.lo;
        }
    }
}

// The next direction over every weight. Of factors, the direction is their product, as f32 holds it.
void Trial::make_directions() {
    std::vector<Value>&all = direction_.emplace_back(), &left = left_.emplace_back(), &right = right_.emplace_back();
    for (const Shape& shape : spec_.weights) {
        const int64_t rank = factor_rank(size(1, 1), shape);
        Value& direction = all.emplace_back(rank > 0 ? DType::f32 : compute_, shape);
        randomize(direction);
        const Shape matrix = matrix_shape(shape);
        left.emplace_back(DType::f32, Shape{rank, matrix[0]});
        right.emplace_back(DType::f32, Shape{rank, matrix[1]});
        if (rank == 0) continue;
        randomize(left.back());
        randomize(right.back());
        const Matrix u = left.back().matrix(), v = right.back().matrix();
        Matrix product(matrix[0], matrix[1]);
        for (int64_t k = 0; k < rank; ++k)
            for (int64_t row = 0; row < product.rows; ++row)
                for (int64_t col = 0; col < product.cols; ++col) product.at(row, col) += u.at(k, row) * v.at(k, col);
        direction.set(product);
    }
}

int64_t Trial::change_first_document() {
    const auto ids = spec_.weights.empty() ? 100 : static_cast<int32_t>(spec_.weights[0][0]);
    const auto end = std::find_if(doc_start_.begin(), doc_start_.end(), [](int32_t start) { return start != 0; });
    for (auto t = doc_start_.begin(); t != end; ++t) {
        int32_t& token = tokens_[static_cast<size_t>(t - doc_start_.begin())];
        token = (token + 1) % ids;
    }
    const int64_t count = end - doc_start_.begin();
    for (Value& value : in_) {
        Matrix changed = value.matrix();
        for (int64_t i = 0; i < count * changed.cols; ++i) changed.numbers[static_cast<size_t>(i)] += 1;
        value.set(changed);
    }
    return count;
}

std::vector<Value> Trial::values(std::span<const ValueSpec> specs, int64_t gap) const {
    std::vector<Value> list;
    for (const ValueSpec& spec : specs) {
        list.emplace_back(dtype_of(spec.type, compute_), Shape{batch_.count(), spec.cols}, gap);
    }
    return list;
}

void Trial::randomize(Value& value) {
    Matrix matrix = value.matrix();
    for (double& number : matrix.numbers) number = rng_.normal() * scale_;
    value.set(matrix);
}

Problem Trial::problem() const {
    Problem problem{&spec_, &batch_, matrices(in_), matrices(base_), compute_};
    if (!split_ || compute_ != DType::f32) return problem;
    for (size_t i = 0; i < base_.size(); ++i) {
        for (size_t n = 0; n < problem.weights[i].numbers.size(); ++n) {
            const Split halves{base_[i].tensor().as<uint16_t>()[n], low_[i].tensor().as<int16_t>()[n]};
            problem.weights[i].numbers[n] = std::bit_cast<float>(join_master(halves));
        }
    }
    return problem;
}

Matrix Trial::grad_out() const {
    return grad_out_[0].matrix();
}
std::vector<Matrix> Trial::tangents_in(int direction) const {
    return matrices(tangent_in_[static_cast<size_t>(direction)]);
}
std::vector<Matrix> Trial::tangents_weights(int direction) const {
    std::vector<Matrix> list = matrices(direction_[static_cast<size_t>(direction)]);
    list.resize(std::min(list.size(), op_->first_constant_weight));
    return list;
}
std::vector<Matrix> Trial::prior_in() const {
    return matrices(prior_in_);
}
std::vector<Matrix> Trial::prior_weights() const {
    return matrices(prior_weights_);
}

}  // namespace windlass::agree
