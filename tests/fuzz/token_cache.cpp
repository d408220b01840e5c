// A cache of tokenised rows: it is read, or built again; each id is one that the tokenizer has.
#include "rows/token_cache.h"

#include "base/error.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/sealed.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_token_cache(std::string_view input) {
    InputFiles folder;
    folder.put("rows.jsonl", "{\"text\": \"hello\"}\n{\"text\": \"hell, he said\"}\n");
    const auto open = [&] {
        return TokenCache::open_or_build(folder.files(), folder.folder(), {folder.path("rows.jsonl")}, RowsOptions(),
                                         small_chat_tokenizer());
    };
    const std::string path = open().path();
    const std::string sound = read_text(folder.files(), path, 1 << 20);
    folder.files().open(path, {.mode = OpenMode::create})->write_at(bytes_of(sealed_tokens(input, sound)), 0);
    const TokenCache cache = open();
    for (int64_t i = 0; i < cache.size(); ++i)
        for (const int32_t id : cache.read(i).ids)
            WINDLASS_CHECK(id >= 0 && id < small_chat_tokenizer().vocab_size(), "no token has the id {}", id);
}

}  // namespace windlass
