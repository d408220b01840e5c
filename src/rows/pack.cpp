#include "rows/pack.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"

namespace windlass {
namespace {

// Appends the rows of one window.
void pack_window(std::span<const uint32_t> lengths, std::span<const uint32_t> window, int64_t max_length,
                 std::vector<PackedRow>& rows) {
    std::vector<uint32_t> by_length(window.size());  // positions in the window, longest first, of equals the earlier
    std::iota(by_length.begin(), by_length.end(), 0u);
    std::stable_sort(by_length.begin(), by_length.end(),
                     [&](uint32_t a, uint32_t b) { return lengths[window[a]] > lengths[window[b]]; });
    std::vector<std::vector<uint32_t>> bins;  // positions in the window
    std::multimap<int64_t, size_t> by_room;   // tokens still free, bin
    for (const uint32_t position : by_length) {
        const int64_t length = lengths[window[position]];
        WINDLASS_CHECK(length <= max_length, "a sample of {} tokens for rows of {}", length, max_length);
        const auto fit = by_room.lower_bound(length);  // the fullest bin with room
        int64_t room = max_length;
        size_t bin = bins.size();
        if (fit == by_room.end()) {
            bins.emplace_back();
        } else {
            std::tie(room, bin) = *fit;
            by_room.erase(fit);
        }
        bins[bin].push_back(position);
        by_room.emplace(room - length, bin);
    }
    for (auto& bin : bins) std::sort(bin.begin(), bin.end());
    std::sort(bins.begin(), bins.end());
    for (const auto& bin : bins) {
        PackedRow& row = rows.emplace_back();
        for (const uint32_t position : bin) row.samples.push_back(window[position]);
    }
}

}  // namespace

std::vector<PackedRow> pack_samples(std::span<const uint32_t> lengths, std::span<const uint32_t> order,
                                    int64_t max_length) {
    std::vector<PackedRow> rows;
    for (size_t begin = 0; begin < order.size(); begin += kPackWindow)
        pack_window(lengths, order.subspan(begin, std::min(kPackWindow, order.size() - begin)), max_length, rows);
    return rows;
}

std::vector<PackedRow> rows_without_packing(std::span<const uint32_t> order) {
    std::vector<PackedRow> rows;
    rows.reserve(order.size());
    for (const uint32_t sample : order) rows.push_back({{sample}});
    return rows;
}

}  // namespace windlass
