// samples.h: small sound things that readers need in addition to their input.
#pragma once

#include "tokenizer/tokenizer.h"

namespace windlass {

// A llama of one layer, 8 wide, with 32 rows in its tables.
inline constexpr const char* kSmallConfig =
    R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 32,
"max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": true, "torch_dtype": "float32"})";

// Of bytes, with a few merges and the marks <s>, </s>, <|im_start|>, <|im_end|>.
const Tokenizer& small_chat_tokenizer();

inline constexpr const char* kSmallTemplate =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// A reader's result that a compiler may not leave out.
template <typename T>
void use(const T& result) {
    asm volatile("" : : "g"(&result) : "memory");
}

}  // namespace windlass
