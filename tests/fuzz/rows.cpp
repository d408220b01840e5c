// Rows in every kind of file: by their names, rows.csv, rows.tsv, rows.json, rows.jsonl, rows.txt; those of pairs.jsonl
// are pairs of answers.
#include "rows/rows.h"

#include "rows/data_kind.h"
#include "rows/row_reader.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_rows(std::string_view input) {
    InputFiles folder(input, "rows.jsonl");
    for (const std::string& name : folder.names()) {
        if (!find_data_kind(name)) continue;
        const bool pairs = name.starts_with("pairs");
        RowsOptions options{.max_length = 64, .truncation = pairs ? Truncation::drop : Truncation::split};
        options.pairs = pairs;
        options.skip_malformed = true;
        options.document_separator = "---";
        options.on_malformed = [](const UserError&) {};
        for_each_sample(folder.files(), folder.path(name), options, small_chat_tokenizer(), [](Sample&& sample) {
            use(sample.trained_count());
            return true;
        });
    }
}

void fuzz_compressed(std::string_view input) {
    InputFiles folder(input, "rows.jsonl.gz.sealed");
    for (const std::string& name : folder.names()) {
        if (!find_data_kind(name)) continue;
        RowReader rows(folder.files(), folder.path(name), "");
        while (const auto row = rows.next()) use(row->text.size());
    }
}

}  // namespace windlass
