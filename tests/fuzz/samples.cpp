#include "tests/fuzz/samples.h"

#include "base/json.h"
#include "tests/fuzz/input_files.h"
#include "tokenizer/byte_alphabet.h"

namespace windlass {
namespace {

Tokenizer make_chat_tokenizer() {
    constexpr int kBytes = 256;
    constexpr const char* kMarks[] = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    Json vocab, added = Json::array();
    for (int byte = 0; byte < kBytes; ++byte) vocab[spell_bytes(std::string(1, static_cast<char>(byte)))] = byte;
    int id = kBytes;
    for (const char* merged : {"he", "ll", "hell", "hello"}) vocab[merged] = id++;
    for (const char* mark : kMarks)
        added.push_back({{"id", id++},
                         {"content", mark},
                         {"special", true},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false}});
    const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    const Json whole = {{"version", "1.0"},
                        {"added_tokens", added},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byte_level},
                        {"post_processor", nullptr},
                        {"decoder", byte_level},
                        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e", "l l", "he ll", "hell o"}}}}};
    InputFiles folder;
    folder.put("tokenizer.json", whole.dump());
    folder.put("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    return Tokenizer::load(folder.files(), folder.folder());
}

}  // namespace

const Tokenizer& small_chat_tokenizer() {
    static const Tokenizer made = make_chat_tokenizer();
    return made;
}

}  // namespace windlass
