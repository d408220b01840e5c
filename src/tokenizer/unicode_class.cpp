#include "tokenizer/unicode_class.h"

#include <utf8proc.h>

namespace windlass {
namespace {

utf8proc_category_t category_of(char32_t value) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

}  // namespace

bool is_white_space(char32_t value) {
    if ((value >= '\t' && value <= '\r') || value == ' ' || value == 0x85) return true;
    if (value < 0x80) return false;
    const auto category = category_of(value);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t value) {
    const auto category = category_of(value);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t value) {
    // Alphabetic symbols (circled and squared letters) and the two joiners are outside the letter categories.
    if ((value >= 0x24B6 && value <= 0x24E9) || (value >= 0x1F130 && value <= 0x1F149)) return true;
    if ((value >= 0x1F150 && value <= 0x1F169) || (value >= 0x1F170 && value <= 0x1F189)) return true;
    if (value == 0x200C || value == 0x200D) return true;
    const auto category = category_of(value);
    switch (category) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_PC:
            return true;
        default:
            return false;
    }
}

}  // namespace windlass
