// unicode_class.h: the classes of code points that tokenizer pipelines ask for, from utf8proc's tables.
#pragma once

namespace windlass {

bool is_white_space(char32_t value);  // property White_Space
bool is_numeric(char32_t value);      // categories Nd, Nl, No
bool is_word(char32_t value);         // what \w means to Hugging Face's single_word: letters, marks, digits, connectors

}  // namespace windlass
