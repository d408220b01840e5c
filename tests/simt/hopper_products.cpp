// Products of warp groups: the second half of hopper.h.
#include <fmt/format.h>

#include <bit>

#include "tests/simt/hopper_state.h"

namespace windlass::simt {
namespace {

constexpr int kDepth = 16;  // numbers that a product sums up
constexpr unsigned kWarpRows = 16;

float number(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

struct Described {
    uint64_t start, leading, stride;
};
Described read_description(uint64_t bits) {
    constexpr uint64_t kField = 0x3fff, kPermuted = 1;
    if (bits >> 62 != kPermuted) fail("a factor is not described as permuted by 128 bytes");
    return {(bits & kField) << 4, (bits >> 16 & kField) << 4, (bits >> 32 & kField) << 4};
}

// Eight numbers that lie side by side from byte `offset` on.
void read_part(uint64_t offset, float (&to)[8]) {
    const std::vector<std::byte>& shown = hopper_state().shown;
    const uint64_t at = permuted(offset);
    if (at + 16 > shown.size()) return fail("a factor ends after shared memory");
    uint16_t bits[8];
    std::memcpy(bits, shown.data() + at, sizeof(bits));
    for (int i = 0; i < 8; ++i) to[i] = number(bits[i]);
}

using Left = float[kWarpRows][kDepth];

void read_left(const WarpProduct& product, unsigned warp_of_group, Left& a) {
    if (product.of_first.a == nullptr) {
        const Described at = read_description(product.of_first.a_described);
        for (unsigned r = 0; r < kWarpRows; ++r) {
            const unsigned row = warp_of_group * kWarpRows + r;
            for (unsigned part = 0; part < 2; ++part)
                read_part(at.start + row / 8 * at.stride + row % 8 * 128 + part * 16,
                          reinterpret_cast<float(&)[8]>(a[r][part * 8]));
        }
        return;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane)
        for (unsigned j = 0; j < 4; ++j) {
            const uint32_t pair = product.a[lane][j];
            const unsigned row = lane / 4 + j % 2 * 8, k = 2 * (lane % 4) + j / 2 * 8;
            a[row][k] = number(static_cast<uint16_t>(pair));
            a[row][k + 1] = number(static_cast<uint16_t>(pair >> 16));
        }
}

// b [16, columns]
void read_right(const GroupProduct& product, std::vector<float>& b) {
    const Described at = read_description(product.b_described);
    const auto columns = static_cast<unsigned>(product.columns);
    float part[8];
    if (product.transposed) {
        for (unsigned k = 0; k < kDepth; ++k)
            for (unsigned n = 0; n < columns; n += 8) {
                read_part(at.start + n / 64 * at.leading + k / 8 * at.stride + k % 8 * 128 + n % 64 * 2, part);
                std::copy_n(part, 8, &b[k * columns + n]);
            }
        return;
    }
    for (unsigned n = 0; n < columns; ++n)
        for (unsigned k = 0; k < kDepth; k += 8) {
            read_part(at.start + n / 8 * at.stride + n % 8 * 128 + k * 2, part);
            for (unsigned i = 0; i < 8; ++i) b[(k + i) * columns + n] = part[i];
        }
}

void compute(WarpState& warp, unsigned warp_of_group, const WarpProduct& product) {
    const auto columns = static_cast<size_t>(product.of_first.columns);
    Left a;
    std::vector<float> b(kDepth * columns), sums(kWarpRows * columns);
    read_left(product, warp_of_group, a);
    read_right(product.of_first, b);
    for (unsigned row = 0; row < kWarpRows; ++row)
        for (int k = 0; k < kDepth; ++k) {
            const float factor = a[row][k];
            float* const to = &sums[row * columns];
            const float* const from = &b[static_cast<size_t>(k) * columns];
            for (size_t n = 0; n < columns; n += 8)
                for (size_t i = 0; i < 8; ++i) to[n + i] += factor * from[n + i];
        }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        HeldSums& held = warp.held.at(product.d[lane]);
        for (unsigned i = 0; i < columns / 2; ++i) {
            const unsigned row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
            const float sum = sums[row * columns + column];
            held.numbers[i] = product.of_first.adds ? held.numbers[i] + sum : sum;
        }
    }
}

unsigned warp_of_block() {
    return this_thread().index.x / kLanes;
}
WarpState& my_warp() {
    return hopper_state().warps[warp_of_block()];
}

// All warps of a group ask for the same products in the same order.
bool is_asked_for_by_others(const WarpProduct& product, size_t index) {
    const unsigned first = warp_of_block() / kGroupWarps * kGroupWarps;
    for (unsigned i = first; i < first + kGroupWarps; ++i) {
        const WarpState& other = hopper_state().warps[i];
        if (other.products.size() <= index) continue;
        const GroupProduct &mine = product.of_first, &theirs = other.products[index].of_first;
        if (mine.columns != theirs.columns || mine.a_described != theirs.a_described ||
            mine.b_described != theirs.b_described || mine.adds != theirs.adds || mine.transposed != theirs.transposed)
            return false;
    }
    return true;
}

// A lane's sums are taken from it until it waits for them.
void hold_sums(WarpState& warp, const GroupProduct& product) {
    const int count = product.columns / 2;
    HeldSums& held = warp.held[product.d];
    if (held.products == 0) {
        held.count = count;
        std::copy_n(product.d, count, held.numbers.begin());
        std::fill_n(product.d, count, std::bit_cast<float>(0xffffffffu));
    }
    ++held.products;
}

void return_sums(WarpState& warp, const WarpProduct& product, unsigned lane) {
    float* const d = product.d[lane];
    HeldSums& held = warp.held.at(d);
    if (--held.products > 0) return;
    std::copy_n(held.numbers.begin(), held.count, d);
    warp.held.erase(d);
}

}  // namespace

void begin_products(Site site) {
    exchange(site, {});
    WarpState& warp = my_warp();
    warp.may_multiply = warp.may_read_registers = true;
}

void multiply_group(Site site, const GroupProduct& given) {
    WarpState& warp = my_warp();
    const unsigned lane = this_thread().lane;
    const size_t index = warp.issued[lane]++;
    if (warp.products.size() <= index) warp.products.push_back({.site = site, .of_first = given});
    WarpProduct& product = warp.products[index];
    product.d[lane] = given.d;
    product.a[lane] = given.a;
    const GroupProduct& first = product.of_first;
    if (first.a_described != given.a_described || first.b_described != given.b_described ||
        first.columns != given.columns || first.adds != given.adds || !is_asked_for_by_others(product, index))
        return fail(place_of(site) + ": the threads of a warp group ask for different products");
    if (!warp.may_multiply || (given.a != nullptr && !warp.may_read_registers))
        return fail(place_of(site) + ": a product without begin_products() before it");
    hold_sums(warp, given);
    if (++product.lanes == kLanes) {
        const unsigned of_group = warp_of_block() % kGroupWarps;
        do_some_time([&warp, of_group, end = index + 1] {
            for (; warp.done < end; ++warp.done) compute(warp, of_group, warp.products[warp.done]);
            release_all(warp.waiters);
        });
    }
    exchange(site, {});
}

void end_products(Site site) {
    exchange(site, {});
    WarpState& warp = my_warp();
    if (this_thread().lane == 0) warp.ends.push_back(warp.products.size());
    warp.may_read_registers = false;
    exchange(site, {});
}

void wait_for_products(Site site, int groups) {
    exchange(site, {});
    WarpState& warp = my_warp();
    const unsigned lane = this_thread().lane;
    if (warp.ends.size() > static_cast<size_t>(groups)) {
        const size_t end = warp.ends[warp.ends.size() - static_cast<size_t>(groups) - 1];
        while (warp.done < end) wait_in(warp.waiters, site);
        for (size_t& next = warp.awaited[lane]; next < end; ++next) return_sums(warp, warp.products[next], lane);
    }
    exchange(site, {});
    warp.may_multiply = false;
}

}  // namespace windlass::simt
