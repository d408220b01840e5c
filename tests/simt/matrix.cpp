#include "tests/simt/matrix.h"

#include <bit>
#include <deque>
#include <unordered_map>
#include <vector>

namespace windlass::simt {
namespace {

// What a lane gives to a product; what it is given back is d.
struct Factors {
    float d[4];
    uint32_t a[4];
    std::array<uint32_t, 2> b;
};
static_assert(sizeof(Factors) <= kExchanged);

float half(uint32_t pair, unsigned index) {
    return std::bit_cast<float>(index == 0 ? pair << 16 : pair & 0xffff0000u);
}

// d += a b of the whole warp.
void multiply(Slots& slots) {
    float a[16][16], b[16][8];
    std::array<Factors, kLanes> lanes;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        Factors& factors = lanes[lane];
        std::memcpy(&factors, slots[lane].data(), sizeof(Factors));
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 2; ++i) {
            for (unsigned pair = 0; pair < 4; ++pair)
                a[g + pair % 2 * 8][2 * t + pair / 2 * 8 + i] = half(factors.a[pair], i);
            for (unsigned pair = 0; pair < 2; ++pair) b[2 * t + pair * 8 + i][g] = half(factors.b[pair], i);
        }
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4 + i / 2 * 8, col = 2 * (lane % 4) + i % 2;
            float sum = 0;
            for (unsigned k = 0; k < 16; ++k) sum += a[row][k] * b[k][col];
            lanes[lane].d[i] += sum;
        }
        std::memcpy(slots[lane].data(), lanes[lane].d, sizeof(lanes[lane].d));
    }
}

// From the addresses of rows to what each lane gets of them.
template <bool kTransposed>
void load(Slots& slots) {
    std::array<const uint16_t*, kLanes> rows;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        std::memcpy(&rows[lane], slots[lane].data(), sizeof(rows[lane]));
        if (reinterpret_cast<uintptr_t>(rows[lane]) % 16 != 0) return fail("a row of a matrix is not aligned");
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        const unsigned g = lane / 4, t = lane % 4;
        uint32_t got[4];
        for (unsigned matrix = 0; matrix < 4; ++matrix) {
            const auto number = [&](unsigned i) -> uint32_t {
                return kTransposed ? rows[matrix * 8 + 2 * t + i][g] : rows[matrix * 8 + g][2 * t + i];
            };
            got[matrix] = number(0) | number(1) << 16;
        }
        std::memcpy(slots[lane].data(), got, sizeof(got));
    }
}

template <typename Given, typename Got>
void exchange_for(Site site, const Given& given, Got& got, void (*turn)(Slots&)) {
    const Slots& slots = exchange(site, std::as_bytes(std::span(&given, 1)), turn);
    std::memcpy(&got, slots[this_thread().lane].data(), sizeof(got));
}

constexpr size_t kCopied = 16;

struct Copy {
    void* to;
    const void* from;  // null: zeros
};

// Of a thread: groups in their order, the last still open.
struct Copies {
    std::deque<std::vector<Copy>> groups{1};
};
thread_local std::unordered_map<const Thread*, Copies> copies;

}  // namespace

void multiply_add(Site site, float (&d)[4], const uint32_t (&a)[4], const std::array<uint32_t, 2>& b) {
    Factors mine{.b = b};
    std::memcpy(mine.d, d, sizeof(d));
    std::memcpy(mine.a, a, sizeof(a));
    exchange_for(site, mine, d, multiply);
}

void load_matrices(Site site, uint32_t (&to)[4], const void* row) {
    exchange_for(site, row, to, load<false>);
}

void load_matrices_transposed(Site site, uint32_t (&to)[4], const void* row) {
    exchange_for(site, row, to, load<true>);
}

void start_copy(void* shared, const void* global, bool given) {
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % kCopied != 0)
        return fail("a copy is not aligned");
    copies[&this_thread()].groups.back().push_back({shared, given ? global : nullptr});
}

void end_copy_group() {
    copies[&this_thread()].groups.emplace_back();
}

void wait_for_copies(size_t groups) {
    auto& mine = copies[&this_thread()].groups;
    for (; mine.size() > groups + 1; mine.pop_front()) {
        for (const Copy& copy : mine.front()) {
            if (copy.from == nullptr) std::memset(copy.to, 0, kCopied);
            if (copy.from != nullptr) std::memcpy(copy.to, copy.from, kCopied);
        }
    }
}

size_t forget_copies() {
    size_t count = 0;
    for (const auto& [thread, mine] : copies)
        for (const std::vector<Copy>& group : mine.groups) count += group.size();
    copies.clear();
    return count;
}

}  // namespace windlass::simt
