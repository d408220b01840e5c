#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace windlass {
namespace {

constexpr size_t kNameLengthMax = 64;  // of compared names: people write anything

int edit_distance(std::string_view a, std::string_view b) {
    std::vector<int> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
    for (size_t i = 1; i <= a.size(); ++i) {
        int diagonal = row[0];
        row[0] = static_cast<int>(i);
        for (size_t j = 1; j <= b.size(); ++j) {
            const int above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
        }
    }
    return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
    name = name.substr(0, kNameLengthMax);
    std::string_view best;
    int best_distance = std::max<int>(2, static_cast<int>(name.size()) / 3) + 1;
    for (const std::string_view candidate : candidates) {
        const int distance = edit_distance(name, candidate);
        if (distance < best_distance) best = candidate, best_distance = distance;
    }
    return best;
}

}  // namespace windlass
