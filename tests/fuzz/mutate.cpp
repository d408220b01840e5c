#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace windlass {
namespace {

size_t below(FuzzRandom& random, size_t limit) {
    return static_cast<size_t>(random() % limit);
}

template <typename List>
auto& pick(FuzzRandom& random, List& list) {
    return list[below(random, std::size(list))];
}

// A piece of a text: short ones are as likely as long ones.
std::string_view piece_of(std::string_view text, FuzzRandom& random) {
    if (text.empty()) return text;
    const size_t at = below(random, text.size());
    const size_t longest = size_t{1} << below(random, 14);
    return text.substr(at, 1 + below(random, longest));
}

void flip_bits(std::string& text, FuzzRandom& random) {
    for (size_t flips = 1 + below(random, 4); flips > 0 && !text.empty(); --flips)
        text[below(random, text.size())] ^= static_cast<char>(1 << below(random, 8));
}

void put_byte(std::string& text, FuzzRandom& random) {
    constexpr std::string_view kBytes("\0\xff\x7f\x80 \n\r\t\"'\\{}[]():,;<>|/-0", 25);
    if (!text.empty()) text[below(random, text.size())] = pick(random, kBytes);
}

// The number in the text from a place on becomes another one.
void put_number(std::string& text, FuzzRandom& random) {
    constexpr std::array kNumbers = {"0",
                                     "-1",
                                     "1",
                                     "2",
                                     "255",
                                     "65536",
                                     "1000000",
                                     "2147483647",
                                     "2147483648",
                                     "4294967296",
                                     "1e308",
                                     "1e400",
                                     "-0",
                                     "0.5",
                                     "9223372036854775807",
                                     "1e-320",
                                     "1e19",
                                     "99999999999",
                                     "33554432",
                                     "18446744073709551615",
                                     "4611686018427387904"};
    if (text.empty()) return;
    constexpr const char* kDigits = "0123456789";
    const size_t begin = text.find_first_of(kDigits, below(random, text.size()));
    if (begin == text.npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, pick(random, kNumbers));
}

// A little-endian number of 1 to 8 bytes.
void put_word(std::string& text, FuzzRandom& random) {
    constexpr std::array<uint64_t, 14> kWords = {
        0,           1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, ~0U, INT64_MAX, uint64_t{1} << 63,
        ~uint64_t{0}};
    const size_t bytes = size_t{1} << below(random, 4);
    if (text.size() < bytes) return;
    const size_t at = below(random, text.size() - bytes + 1);
    uint64_t word = pick(random, kWords);
    if (below(random, 2) == 0) {
        std::memcpy(&word, text.data() + at, bytes);
        word += below(random, 33) - 16;
    }
    std::memcpy(text.data() + at, &word, bytes);
}

void drop_piece(std::string& text, FuzzRandom& random) {
    const std::string_view piece = piece_of(text, random);
    text.erase(static_cast<size_t>(piece.data() - text.data()), piece.size());
}

void insert(std::string& text, std::string_view piece, FuzzRandom& random) {
    text.insert(below(random, text.size() + 1), std::string(piece));
}

// Doubles a piece, now and then often: what takes the square of its input shows.
void repeat_piece(std::string& text, size_t bytes_max, FuzzRandom& random) {
    const std::string piece(piece_of(text, random));
    if (piece.empty()) return;
    const size_t room = text.size() < bytes_max ? (bytes_max - text.size()) / piece.size() : 0;
    size_t times = below(random, 8) == 0 ? size_t{1} << below(random, 12) : 1;
    times = std::min(times, room);
    std::string many;
    many.reserve(times * piece.size());
    for (size_t i = 0; i < times; ++i) many += piece;
    insert(text, many, random);
}

void put_word_of(std::span<const std::string_view> words, std::string& text, FuzzRandom& random) {
    if (words.empty()) return flip_bits(text, random);
    const size_t at = below(random, text.size() + 1);
    const size_t replaced = below(random, 2) == 0 ? 0 : below(random, 12);
    text.replace(at, std::min(replaced, text.size() - at), pick(random, words));
}

void change(std::string& text, std::span<const std::string> corpus, std::span<const std::string_view> words,
            size_t bytes_max, FuzzRandom& random) {
    switch (below(random, 10)) {
        case 0:
            return flip_bits(text, random);
        case 1:
            return put_byte(text, random);
        case 2:
            return put_number(text, random);
        case 3:
            return put_word(text, random);
        case 4:
            return drop_piece(text, random);
        case 5:
            return repeat_piece(text, bytes_max, random);
        case 6:
            return insert(text, piece_of(pick(random, corpus), random), random);
        case 7:
            if (below(random, 4) == 0) text.resize(below(random, text.size() + 1));
            return put_number(text, random);
        default:
            return put_word_of(words, text, random);
    }
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view words) {
    std::vector<std::string_view> list;
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (end > 0) list.push_back(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return list;
}

std::string mutated(std::span<const std::string> corpus, std::span<const std::string_view> words, size_t bytes_max,
                    FuzzRandom& random) {
    std::string text = pick(random, corpus);
    for (size_t changes = 1 + below(random, 5); changes > 0; --changes) change(text, corpus, words, bytes_max, random);
    if (text.size() > bytes_max) text.resize(bytes_max);
    return text;
}

}  // namespace windlass
