// mutate.h: inputs made of inputs: bits flipped, numbers at the ends of their ranges, words of the target, pieces left
// out, doubled, moved, or taken from other inputs. By the random numbers that are given, and by nothing else.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

using FuzzRandom = std::mt19937_64;

std::vector<std::string_view> words_of(std::string_view words);

// A changed copy of one of `corpus`, which is not empty, of at most `bytes_max` bytes.
std::string mutated(std::span<const std::string> corpus, std::span<const std::string_view> words, size_t bytes_max,
                    FuzzRandom& random);

}  // namespace windlass
