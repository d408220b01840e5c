// magnitude_limits.h: what follows from how large the weights of a run's base are: which of them a sparse run probes
// and updates, the smallest of each matrix; and the scales of matrices that are kept in 8 bits.
//
// Sparse-MeZO: Liu et al., "Sparse MeZO: Less parameters for better performance in zeroth-order LLM fine-tuning"
// (NeurIPS 2025, arXiv 2402.15751). Limits are fixed before the first step and are in the run's log; which weights
// are below them is decided again in every step, by the weights as they are stored then.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "method/trained_model.h"
#include "model/save.h"

namespace windlass {

// Magnitudes, counted by the upper 16 bits of their f32: exact for numbers of bf16, and for others a limit is too high
// by one part in 128 at most. 256 KiB, however many they are.
class MagnitudeHistogram {
  public:
    void add(std::span<const float> weights);
    // The least limit that so large a share of them does not exceed. share in (0, 1].
    float limit(double share) const;
    // The lower edge of the bin of the histogram that limit(share), or the largest magnitude, falls into.
    float at_limit(double share) const { return of_bin(bin_of(share), 0); }
    float largest() const;

  private:
    size_t bin_of(double share) const;
    static float of_bin(size_t bin, uint32_t lower);

    std::vector<int64_t> counts_ = std::vector<int64_t>(size_t{1} << 15);
    int64_t total_ = 0;
};

// Sets ParamPerturb::magnitude_limit of every matrix and table that is trained, where the share is below 1; norms and
// biases, which are few, are all probed. And ParamStorage::scale_exponent of matrices that are kept in 8 bits (their
// limits apply to the rounded weights). `masters` are the base's; reads what it needs once, 4 MiB at a
// time.
void set_by_magnitudes(TrainedModel& model, double sparse_share, const ReadMasters& masters);

}  // namespace windlass
