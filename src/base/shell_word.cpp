#include "base/shell_word.h"

namespace windlass {

std::string shell_word(const std::string& word) {
    const bool is_plain =
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-,=:@+") ==
        std::string::npos;
    if (is_plain && !word.empty()) return word;
    std::string made = "'";
    for (const char each : word) made += each == '\'' ? std::string("'\\''") : std::string(1, each);
    return made + "'";
}

std::string shell_command(std::span<const std::string> words) {
    std::string made;
    for (const std::string& word : words) {
        if (!made.empty()) made += ' ';
        made += shell_word(word);
    }
    return made;
}

}  // namespace windlass
