#include "model/adapters/row_norms.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/math.h"

namespace windlass {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kNormPieceElements = int64_t{1} << 16;

// The squares of outputs [first, first + sums.size()).
struct Squares {
    const LinearLayer& layer;
    int64_t first;
    std::vector<double> sums;

    // Elements from `element` on.
    void add(int64_t element, std::span<const float> numbers) {
        const int64_t cols = layer.in_out ? layer.out_cols : layer.in_cols;
        while (!numbers.empty()) {
            const int64_t col = element % cols, count = std::min(cols - col, std::ssize(numbers));
            add_run(element / cols, col, numbers.first(at(count)));
            element += count;
            numbers = numbers.subspan(at(count));
        }
    }

  private:
    // Of one row of the weight as it is stored.
    void add_run(int64_t row, int64_t col, std::span<const float> numbers) {
        const auto square = [](float x) { return static_cast<double>(x) * static_cast<double>(x); };
        if (!layer.in_out) {
            if (row < first || row >= first + std::ssize(sums)) return;
            for (const float x : numbers) sums[at(row - first)] += square(x);
            return;
        }
        const int64_t begin = std::max(col, first);
        const int64_t end = std::min(col + std::ssize(numbers), first + std::ssize(sums));
        for (int64_t output = begin; output < end; ++output)
            sums[at(output - first)] += square(numbers[at(output - col)]);
    }
};

}  // namespace

int64_t output_of(const LinearLayer& layer, int64_t element) {
    return layer.in_out ? element % layer.out_cols : element / layer.in_cols;
}

std::vector<double> row_norms(const LinearLayer& layer, int64_t first, int64_t count, const ReadWeight& read) {
    const int64_t all = layer.in_cols * layer.out_cols;
    int64_t begin = layer.in_out ? 0 : first * layer.in_cols;
    const int64_t end = layer.in_out ? all : (first + count) * layer.in_cols;
    begin -= begin % kBlock;
    Squares squares{layer, first, std::vector<double>(at(count))};
    std::vector<float> piece;
    for (; begin < end; begin += std::ssize(piece)) {
        piece.resize(at(std::min({kNormPieceElements, round_up(end - begin, kBlock), all - begin})));
        read(begin, piece);
        squares.add(begin, piece);
    }
    for (double& sum : squares.sums) sum = std::sqrt(sum);
    return std::move(squares.sums);
}

}  // namespace windlass
