// step_digest.h: a checksum of what a few steps gave: two runs that end with the same bits print the same one.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "format/checksum.h"
#include "run/engine.h"

namespace windlass {

// Of losses and norms as they come, and of the weights at the end.
class Digest {
  public:
    void add(const StepReport& report) {
        for (const double value : {report.loss_sum, report.grad_norm}) add(std::as_bytes(std::span(&value, 1)));
    }
    void add_weights(Engine& engine) {
        engine.flush();
        std::vector<float> piece(size_t{1} << 22);
        const std::vector<ParamSpec>& params = engine.setup().model.params;
        for (size_t p = 0; p < params.size(); ++p) {
            const int64_t count = params[p].shape.numel();
            for (int64_t first = 0; first < count; first += std::ssize(piece)) {
                const std::span out(piece.data(), static_cast<size_t>(std::min(std::ssize(piece), count - first)));
                engine.read_masters(static_cast<int>(p), first, out);
                add(std::as_bytes(out));
            }
        }
    }
    uint64_t value() const { return value_; }

  private:
    void add(std::span<const std::byte> bytes) {
        const std::array<uint64_t, 2> both = {value_, xxh3_64(bytes)};
        value_ = xxh3_64(std::as_bytes(std::span(both)));
    }
    uint64_t value_ = 0;
};

}  // namespace windlass
