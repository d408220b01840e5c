// The AdamW update over the memory's speed: update_bench [threads]
//
// 28, 20 or 16 bytes per parameter and step (state formats s1, s2, s3): the halves of the master, both moments and the
// gradient are read, all but the gradient written. Possible is a copy by the same team, measured in turn with it; and
// the exact global norm, which only reads, over a plain read.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "measure.h"
#include "method/recipe.h"
#include "run/norm.h"
#include "schedule/numerics.h"

namespace windlass {
namespace {

constexpr int64_t kElements = int64_t{1} << 26;
constexpr int kRounds = 9;

struct Arrays {
    HugeBuffer hi{kElements * 2, true}, lo{kElements * 2, true}, m{kElements * 4, true}, v{kElements * 4, true};
    HugeBuffer gradient{kElements * 4, true}, copy{kElements * 14, true};

    Arrays() {
        Random random(1, RandomStream::test);
        auto* g = reinterpret_cast<float*>(gradient.data());
        for (int64_t i = 0; i < kElements; ++i) g[i] = random.uniform() - 0.5f;
    }
};

void update_all(Arrays& arrays, const Recipe& recipe, const StepParams& step, Stream& stream) {
    const ParamSpec param{.name = "w", .shape = {kElements}};
    for (int64_t first = 0; first < kElements; first += kChunkElements) {
        std::vector<std::byte*> state;  // sections in turn share the room of m and of v
        for (size_t s = 0; s < recipe.state.size(); ++s) {
            HugeBuffer& room = 2 * s < recipe.state.size() ? arrays.m : arrays.v;
            const bool scale = recipe.state[s].per > 1;  // behind the codes
            state.push_back(room.data() + (scale ? kElements : 0) + state_bytes(recipe.state[s], first));
        }
        recipe.update[0]({.param = &param,
                          .first = first,
                          .element = first,
                          .count = kChunkElements,
                          .hi = reinterpret_cast<uint16_t*>(arrays.hi.data()) + first,
                          .lo = reinterpret_cast<int16_t*>(arrays.lo.data()) + first,
                          .state = state,
                          .gradient = reinterpret_cast<const float*>(arrays.gradient.data()) + first,
                          .step = &step},
                         stream);
    }
}

// Copies 14 bytes per element, which moves 28.
void copy_all(Arrays& arrays, Team& team) {
    constexpr int64_t kPieces = 64, kBytes = kElements / kPieces;
    team.parallel_for(kPieces, [&](int64_t piece, int) {
        std::byte* to = arrays.copy.data() + piece * kBytes * 14;
        std::memcpy(to, arrays.m.data() + piece * kBytes * 4, kBytes * 4);
        std::memcpy(to + kBytes * 4, arrays.v.data() + piece * kBytes * 4, kBytes * 4);
        std::memcpy(to + kBytes * 8, arrays.gradient.data() + piece * kBytes * 4, kBytes * 4);
        std::memcpy(to + kBytes * 12, arrays.hi.data() + piece * kBytes * 2, kBytes * 2);
    });
}

void run(int threads, StateFormat format) {
    CpuStream stream(threads);
    Arrays arrays;
    const MethodOptions options{.state_format = format};
    const Recipe recipe = make_recipe("adamw", options);
    StepParams step{.step = 1, .learning_rate = 1e-4};
    std::vector<double> updates, copies, norms;
    std::vector<double> partial(static_cast<size_t>(kElements / kNormChunkElements));
    for (int round = 0; round < kRounds; ++round) {
        step.step = round + 1;
        recipe.prepare(options, step);
        updates.push_back(seconds_of([&] { update_all(arrays, recipe, step, stream); }));
        copies.push_back(seconds_of([&] { copy_all(arrays, stream.team()); }));
        norms.push_back(seconds_of([&] {
            sum_squares(reinterpret_cast<const float*>(arrays.gradient.data()), kElements, partial, stream.team());
        }));
    }
    const double update = recipe.update_bytes_per_element * static_cast<double>(kElements) / median(updates);
    const double copy = 28.0 * kElements / median(copies), norm = 4.0 * kElements / median(norms);
    fmt::print(
        "{} threads, {}, {}: update {:.1f} GB/s ({:.2f} Gparam/s) over copy {:.1f} GB/s = {:.2f}; norm reads {:.1f} "
        "GB/s\n",
        threads, isa_name(cpu_isa()), state_format_name(format), update * 1e-9, kElements / median(updates) * 1e-9,
        copy * 1e-9, update / copy, norm * 1e-9);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
    for (const windlass::StateFormat format : windlass::kStateFormats) windlass::run(threads, format);
}
