// The AdamW update over the memory's speed: update_bench [threads]
//
// 28, 20 or 16 bytes per parameter and step (state formats fp32, bf16, int8): the halves of the master, both moments
// and the gradient are read, all but the gradient written. Possible is what the same team reaches on the same arrays in
// turn with it, whichever is faster: to read and write in place what fp32 does, with one exclusive-or for every 8
// bytes; or to copy past the caches. Neither makes the processor read what it only overwrites, so every byte that moves
// is counted. And the exact global norm, which only reads, over a plain read. Medians of updates and norms with the
// least and the most; of what is possible the best.
#include <emmintrin.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "measure.h"
#include "method/norm.h"
#include "method/recipe.h"
#include "schedule/numerics.h"

namespace windlass {
namespace {

constexpr int64_t kElements = int64_t{1} << 26;
constexpr int kRounds = 9;

struct Arrays {
    HugeBuffer hi{kElements * 2, true}, lo{kElements * 2, true}, m{kElements * 4, true}, v{kElements * 4, true};
    HugeBuffer gradient{kElements * 4, true}, copy{kElements * 4, true};

    Arrays() {
        Random random(1, RandomStream::test);
        auto* g = reinterpret_cast<float*>(gradient.data());
        for (int64_t i = 0; i < kElements; ++i) g[i] = random.uniform() - 0.5f;
    }
};

void update_all(Arrays& arrays, const Recipe& recipe, const StepParams& step, Stream& stream) {
    const LoneParam param{.spec = {.name = "w", .shape = {kElements}}, .training = {}, .storage = {}, .perturb = {}};
    for (int64_t first = 0; first < kElements; first += kChunkElements) {
        std::vector<std::byte*> state;  // sections in turn share the room of m and of v
        for (size_t s = 0; s < recipe.state.size(); ++s) {
            HugeBuffer& room = 2 * s < recipe.state.size() ? arrays.m : arrays.v;
            const bool scale = recipe.state[s].per > 1;  // behind the codes
            state.push_back(room.data() + (scale ? kElements : 0) + state_bytes(recipe.state[s], first));
        }
        recipe.update()->cells[0]({.param = param,
                                   .first = first,
                                   .element = first,
                                   .count = kChunkElements,
                                   .hi = reinterpret_cast<uint16_t*>(arrays.hi.data()) + first,
                                   .lo = reinterpret_cast<int16_t*>(arrays.lo.data()) + first,
                                   .state = state,
                                   .gradient = reinterpret_cast<float*>(arrays.gradient.data()) + first,
                                   .step = &step},
                                  stream);
    }
}

constexpr int64_t kPieces = 64;

// A part of an array, as words.
struct Words {
    uint64_t* first;
    int64_t count;
};
Words words_of(HugeBuffer& buffer, int64_t element_bytes, int64_t piece) {
    const int64_t bytes = kElements / kPieces * element_bytes;
    return {reinterpret_cast<uint64_t*>(buffer.data() + piece * bytes), bytes / 8};
}

void flip(Words words, uint64_t pattern) {
    for (int64_t i = 0; i < words.count; ++i) words.first[i] ^= pattern;
}

uint64_t merged(Words words) {
    uint64_t all = 0;
    for (int64_t i = 0; i < words.count; ++i) all ^= words.first[i];
    return all;
}

// Moves what the fp32 update moves: 16 bytes of an element read, 12 of them written where they were read. Twice with
// one pattern leaves everything as it was.
uint64_t pass_in_place(Arrays& arrays, Team& team) {
    constexpr uint64_t kPattern = 0x0101010101010101;
    std::vector<uint64_t> sums(kPieces);
    team.parallel_for(kPieces, [&](int64_t piece, int) {
        flip(words_of(arrays.hi, 2, piece), kPattern);
        flip(words_of(arrays.lo, 2, piece), kPattern);
        flip(words_of(arrays.m, 4, piece), kPattern);
        flip(words_of(arrays.v, 4, piece), kPattern);
        sums[static_cast<size_t>(piece)] = merged(words_of(arrays.gradient, 4, piece));
    });
    return *std::max_element(sums.begin(), sums.end());
}

uint64_t read_gradient(Arrays& arrays, Team& team) {
    std::vector<uint64_t> sums(kPieces);
    team.parallel_for(kPieces, [&](int64_t piece, int) {
        sums[static_cast<size_t>(piece)] = merged(words_of(arrays.gradient, 4, piece));
    });
    return *std::max_element(sums.begin(), sums.end());
}

// Stores that go past the caches: nothing of the target is read.
void copy_all(Arrays& arrays, Team& team) {
    team.parallel_for(kPieces, [&](int64_t piece, int) {
        const Words from = words_of(arrays.gradient, 4, piece), to = words_of(arrays.copy, 4, piece);
        const auto* source = reinterpret_cast<const __m128i*>(from.first);
        auto* target = reinterpret_cast<__m128i*>(to.first);
        for (int64_t i = 0; i < from.count / 2; ++i) _mm_stream_si128(target + i, _mm_load_si128(source + i));
        _mm_sfence();
    });
}

std::string range(double bytes, std::vector<double> seconds) {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    return fmt::format("{:.1f} GB/s ({:.1f} to {:.1f})", bytes / median(seconds) * 1e-9, bytes / *most * 1e-9,
                       bytes / *least * 1e-9);
}

double best_rate(double bytes, const std::vector<double>& seconds) {
    return bytes / *std::min_element(seconds.begin(), seconds.end());
}

void run(int threads, StateFormat format) {
    CpuStream stream(threads);
    Arrays arrays;
    const MethodOptions options{.state_format = format};
    const Recipe recipe = make_recipe("adamw", options);
    StepParams step{.step = 1, .learning_rate = 1e-4};
    std::vector<double> updates, passes, copies, norms, reads;
    uint64_t seen = 0;  // of what is only read, so that it must be
    std::vector<double> partial(static_cast<size_t>(kElements / kNormChunkElements));
    for (int round = 0; round < kRounds; ++round) {
        step.step = round + 1;
        recipe.prepare(options, step);
        updates.push_back(seconds_of([&] { update_all(arrays, recipe, step, stream); }));
        passes.push_back(seconds_of([&] { seen ^= pass_in_place(arrays, stream.team()); }));
        pass_in_place(arrays, stream.team());  // back again
        copies.push_back(seconds_of([&] { copy_all(arrays, stream.team()); }));
        reads.push_back(seconds_of([&] { seen ^= read_gradient(arrays, stream.team()); }));
        norms.push_back(seconds_of(
            [&] { sum_squares(reinterpret_cast<const float*>(arrays.gradient.data()), kElements, partial, stream); }));
    }
    const double count = static_cast<double>(kElements), update_bytes = recipe.update()->bytes_per_element * count;
    const double possible = std::max(best_rate(28 * count, passes), best_rate(8 * count, copies));
    fmt::print(
        "{} threads, {}, {}: update {}, {:.2f} G parameters/s, {:.2f} of what memory gives ({:.1f} GB/s in place, "
        "{:.1f} copied); norm reads {}, {:.2f} of a plain read\n",
        threads, isa_name(cpu_isa()), state_format_name(format), range(update_bytes, updates),
        count / median(updates) * 1e-9, update_bytes / median(updates) / possible, best_rate(28 * count, passes) * 1e-9,
        best_rate(8 * count, copies) * 1e-9, range(4 * count, norms),
        4 * count / median(norms) / best_rate(4 * count, reads));
    [[maybe_unused]] volatile const uint64_t kept = seen;
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
    for (const windlass::StateFormat format : windlass::kStateFormats) windlass::run(threads, format);
}
