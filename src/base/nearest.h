// nearest.h: the name that a user probably meant.
#pragma once

#include <span>
#include <string_view>

namespace windlass {

// The candidate that needs the fewest inserted, removed and changed characters, the first of equals; empty when that is
// more than two of them and more than a third of the name.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace windlass
