// tokenizer.json and the files next to it, and a text that they cut.
#include "tokenizer/tokenizer.h"

#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {
namespace {

void read_tokenizer_of(InputFiles& folder, std::string_view text) {
    const Tokenizer tokenizer = Tokenizer::load(folder.files(), folder.folder());
    const std::vector<int32_t> ids = tokenizer.encode(text, true);
    tokenizer.decode(ids, true);
    StreamDecoder decoder(tokenizer, false);
    std::string whole;
    for (const int32_t id : ids) whole += decoder.push(id);
    whole += decoder.finish();
    use(tokenizer.content_hash());
}

constexpr std::string_view kText =
    "WIT, n. The salt  with which\n7 humorists <s> spoil it. \xC3\x9F\xE2\x82\xAC\xF0\x9F\x9A\x80";

}  // namespace

void fuzz_tokenizer(std::string_view input) {
    InputFiles folder(input, "tokenizer.json");
    const std::string_view text = part_of(split_input(input, ""), "text.txt");
    read_tokenizer_of(folder, text.empty() ? kText : text);
}

void fuzz_vocab_merges(std::string_view input) {
    InputFiles folder(input, "vocab.json");
    folder.put_default("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
    folder.put_default("merges.txt", "#version: 0.2\nh e\n");
    const std::string_view text = part_of(split_input(input, ""), "text.txt");
    read_tokenizer_of(folder, text.empty() ? kText : text);
}

}  // namespace windlass
